"""Quotas, checked in the intent's own transaction: `projects.quota` is `{"server": 20, …}`; a kind left out is free."""

from zone9.base.errors import Refused
from zone9.store.database import Connection, row, run


async def check(connection: Connection, *, project: str | None, kind: str) -> None:
    """Raises Refused when the project has more of a kind than it may; the row that is asked for counts."""
    if project is None:
        return
    project_row = await row(
        connection,
        "SELECT CAST(quota ->> :kind AS int) AS most FROM projects WHERE id = :id",
        id=project,
        kind=kind,
    )
    if project_row is None:
        raise Refused("there is no such project", code="project_not_found", status=404)
    most = project_row["most"]
    if most is None:
        return
    # Creates of a limited kind go one after the other: those that are not committed yet must count too.
    await run(connection, "SELECT pg_advisory_xact_lock(hashtext('quota:' || :project))", project=project)
    counted = await row(
        connection,
        "SELECT count(*) AS n FROM resources WHERE project = :project AND kind = :kind AND phase <> 'deleted'",
        project=project,
        kind=kind,
    )
    assert counted is not None
    if counted["n"] > most:
        raise Refused(
            f"the project's quota is {most} of kind {kind}",
            code="quota_reached",
            status=409,
            most=most,
            kind=kind,
        )
