"""Idempotency keys: the answer to a mutation is stored in the mutation's own transaction.

So it stands or falls with the change: a client whose answer was lost sends the same request again and gets the
same answer, and after a roll-back the key is free. While the first transaction is open a second request with
the key is told so, by an advisory lock that PostgreSQL gives up with the transaction. Kept for 24 hours and
until the job has ended. An answer that holds a secret is sealed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from zone9.base.errors import Refused
from zone9.base.sealing import Sealer
from zone9.store.database import Connection, Database, as_json, row, run

KEPT = "24 hours"
SEALED = "zone9-sealed"
ENDED = "('succeeded', 'failed', 'canceled', 'superseded')"
EXPIRED = f"""
i.at < z9_now() - interval '{KEPT}'
AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = i.job AND j.status NOT IN {ENDED})
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """Is an answer as it was given the first time."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def recall(
    connection: Connection, sealer: Sealer, *, token: str, key: str, body_hash: bytes
) -> Stored | None:
    """Takes the key for this transaction; returns the answer given before, or None when it is the first time.

    Raises Refused while another transaction holds the key (409), or when it was used for another request (422).
    """
    taken = await row(
        connection,
        "SELECT pg_try_advisory_xact_lock(hashtextextended('idempotency:' || :token || ':' || :key, 0)) AS ok",
        token=token,
        key=key,
    )
    if taken is None or not taken["ok"]:
        raise Refused(
            "the first request with this Idempotency-Key is still being carried out",
            code="idempotency_in_progress",
            status=409,
        )
    await run(
        connection,
        f"DELETE FROM idempotency i WHERE i.token = :token AND i.key = :key AND {EXPIRED}",
        token=token,
        key=key,
    )
    found = await row(
        connection,
        "SELECT body_hash, status, headers, body FROM idempotency WHERE token = :token AND key = :key",
        token=token,
        key=key,
    )
    if found is None:
        return None
    if bytes(found["body_hash"]) != body_hash:
        raise Refused(
            "this Idempotency-Key was used for another request", code="idempotency_key_reused", status=422
        )
    headers = dict(found["headers"])
    body = bytes(found["body"])
    if headers.pop(SEALED, None):
        body = sealer.open(body, row=_bound(token, key))
    return Stored(int(found["status"]), headers, body)


async def store(
    connection: Connection,
    sealer: Sealer,
    answer: Stored,
    *,
    token: str,
    key: str,
    body_hash: bytes,
    job: str | None,
    secret: bool,
) -> None:
    """Keeps an answer; `secret` seals its body."""
    headers = dict(answer.headers) | ({SEALED: "1"} if secret else {})
    body = sealer.seal(answer.body, row=_bound(token, key)) if secret else answer.body
    await run(
        connection,
        """
        INSERT INTO idempotency (token, key, body_hash, status, headers, body, job)
        VALUES (:token, :key, :body_hash, :status, CAST(:headers AS jsonb), :body, :job)
        """,
        token=token,
        key=key,
        body_hash=body_hash,
        status=answer.status,
        headers=as_json(headers),
        body=body,
        job=job,
    )


async def trim(database: Database) -> int:
    """Removes keys whose time is over; says how many."""
    async with database.begin() as connection:
        return await run(connection, f"DELETE FROM idempotency i WHERE {EXPIRED}")


def _bound(token: str, key: str) -> str:
    return json.dumps(["idempotency", token, key])
