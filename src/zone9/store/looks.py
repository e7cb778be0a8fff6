"""The catalogue's answers inside the intent's own transaction: what is asked for is resolved once and stored.

What a server needs of its plan, image, network and keys becomes part of its version, so that no document
changes under an old number.
"""

import json
from collections.abc import Mapping
from typing import Any

from zone9.base.errors import FieldProblem, Refused
from zone9.base.ids import new_id
from zone9.base.sealing import Sealer
from zone9.store import allocations
from zone9.store.database import Connection, Row, row, run


class Looks:
    """Is `model.ports.Look` for one resource, in one transaction."""

    def __init__(
        self, connection: Connection, *, resource: str, project: str | None, sealer: Sealer | None
    ) -> None:
        self._connection = connection
        self._resource = resource
        self._project = project
        self._sealer = sealer

    async def find(self, kind: str, ref: str, *, pointer: str) -> Mapping[str, Any]:
        """Locks the row against deletion meanwhile; another project's resource does not exist for this one."""
        found = await row(
            self._connection,
            """
            SELECT id, name, spec, resolved, observed, facts, health, convergence FROM resources
            WHERE kind = :kind AND (name = :ref OR id = :ref) AND phase = 'live'
              AND (project IS NULL OR project = :project)
            ORDER BY (id = :ref) DESC LIMIT 1 FOR SHARE
            """,
            kind=kind,
            ref=ref,
            project=self._project,
        )
        if found is None:
            sentence = f"there is no {kind} named {ref}"
            raise Refused(
                sentence,
                code="reference_not_found",
                fields=(FieldProblem(pointer, sentence, "reference_not_found", {"kind": kind, "ref": ref}),),
                kind=kind,
                ref=ref,
            )
        return dict(found)

    async def address(self, network: Mapping[str, Any], *, wanted: str | None) -> str:
        return await allocations.take_address(
            self._connection,
            network=network["id"],
            spec=network["spec"],
            resource=self._resource,
            wanted=wanted,
        )

    async def taken(self, kind: str, **where: Any) -> str | None:
        found = await row(
            self._connection,
            """
            SELECT name FROM resources WHERE kind = :kind AND phase <> 'deleted' AND id <> :me
              AND resolved @> CAST(:where AS jsonb) LIMIT 1
            """,
            kind=kind,
            me=self._resource,
            where=json.dumps(where),
        )
        return None if found is None else str(found["name"])

    async def guest(self, region: str, vmid: int) -> Mapping[str, Any] | None:
        found = await row(
            self._connection,
            """
            SELECT g.type, g.name, g.node, g.status, g.template, g.project, g.uuid, g.digest, g.config,
                   g.missing_since,
                   (SELECT count(*) FROM guests t WHERE t.region = g.region AND t.uuid = g.uuid AND t.vmid <> g.vmid
                      AND t.missing_since IS NULL) AS twins,
                   (SELECT s.name FROM resources s WHERE s.kind = 'server' AND s.phase <> 'deleted' AND s.id <> :me
                      AND s.resolved ->> 'region' = g.region AND s.facts ->> 'vmid' = g.vmid::text LIMIT 1) AS server
            FROM guests g WHERE g.region = :region AND g.vmid = :vmid AND g.project = :project FOR SHARE OF g
            """,
            me=self._resource,
            project=self._project,
            region=region,
            vmid=vmid,
        )
        return None if found is None else dict(found)

    async def seal(self, plain: str) -> str:
        assert self._sealer is not None, "this composition has no sealing key"
        ref = new_id("sec")
        await run(
            self._connection,
            "INSERT INTO secrets (id, sealed) VALUES (:id, :sealed)",
            id=ref,
            sealed=self._sealer.seal(plain.encode(), row=ref),
        )
        return ref


def open_secret(sealer: Sealer, found: Row) -> str:
    """Opens a row with the columns `ref` and `sealed`; the plain value goes to a driver and nowhere else."""
    if found["sealed"] is None:
        raise Refused("the secret is gone", code="secret_gone", status=409)
    return sealer.open(bytes(found["sealed"]), row=found["ref"]).decode()
