"""A thousand servers listed, beside the bare rows read and printed as JSON."""

import json
import time
from collections.abc import Iterator

import psycopg
from psycopg.rows import dict_row

from bench.kit import Figure, Installation, median

COUNT, TIMES = 1000, 15


def run(made: Installation) -> Iterator[Figure]:
    with psycopg.connect(made.database_url, autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO resources (id, kind, project, name, spec, resolved, intent_version, applied_version, observed,
                                   observed_at, convergence, health, observed_intent_version, measured_at, witness, facts)
            SELECT 'srv_' || lpad(n::text, 26, '0'), kind, project, 'many' || n, spec, resolved, 1, 1, observed, observed_at,
                   'applied', 'ok', 1, measured_at, witness, facts
            FROM generate_series(1, %s) AS n,
                 LATERAL (SELECT * FROM resources WHERE kind = 'server' AND phase = 'live' LIMIT 1) AS one
            """,
            (COUNT,),
        )
    ours = []
    for _ in range(TIMES):
        began = time.perf_counter()
        page = made.http.get("/v1/servers", params={"page_size": COUNT}).json()
        ours.append((time.perf_counter() - began) * 1000)
        assert len(page["items"]) == COUNT
    bare = []
    with psycopg.connect(made.database_url, row_factory=dict_row) as connection:
        for _ in range(TIMES):
            began = time.perf_counter()
            rows = connection.execute(
                "SELECT * FROM resources WHERE kind = 'server' ORDER BY id LIMIT %s", (COUNT,)
            ).fetchall()
            json.dumps(rows, default=str)
            bare.append((time.perf_counter() - began) * 1000)
    yield Figure(
        f"{COUNT} servers listed by the API, p50",
        median(ours),
        "ms",
        "the same rows as JSON, bare, p50",
        median(bare),
    )
