"""Quotas, checked in the intent's own transaction: `projects.quota` is `{"server": 20, …}`; a kind left out is free."""

from sqlalchemy.ext.asyncio import AsyncConnection

from zone9.base.errors import Refused
from zone9.store.database import row


async def check(connection: AsyncConnection, *, project: str | None, kind: str) -> None:
    """Raises Refused when the project has more of a kind than it may; the row that is asked for counts."""
    if project is None:
        return
    found = await row(
        connection,
        """
        SELECT (p.quota ->> :kind)::int AS most,
               (SELECT count(*) FROM resources r WHERE r.project = p.id AND r.kind = :kind AND r.phase <> 'deleted') AS has
        FROM projects p WHERE p.id = :project
        """,
        project=project,
        kind=kind,
    )
    if found is None:
        raise Refused("there is no such project", code="project_not_found", status=404)
    if found["most"] is not None and found["has"] > found["most"]:
        raise Refused(
            f"the project's quota is {found['most']} of kind {kind}",
            code="quota_reached",
            status=409,
            most=found["most"],
            kind=kind,
        )
