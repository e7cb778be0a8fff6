"""From rows to the model's frozen data."""

from typing import Any

from zone9.model.facts import Intent, WriteRecord
from zone9.model.states import Convergence, Health, Phase
from zone9.store.database import Row

INTENT_COLUMNS = (
    "id, kind, project, name, intent_version, applied_version, spec, resolved, facts, phase, owner, convergence, "
    "given_up_version, health"
)


def intent_of(row: Row) -> Intent:
    """Returns a `resources` row as intent."""
    return Intent(
        id=row["id"],
        kind=row["kind"],
        project=row["project"],
        name=row["name"],
        version=row["intent_version"],
        applied_version=row["applied_version"],
        spec=row["spec"],
        resolved=row["resolved"],
        facts=row["facts"],
        phase=Phase(row["phase"]),
        owner=row["owner"],
        convergence=Convergence(row["convergence"]),
        given_up_version=row["given_up_version"],
        health=Health(row["health"]),
    )


WRITE_COLUMNS = (
    "id, resource, job, step, target, node, request, upid, opened_at, outcome, exit_text, intent_version, "
    "extract(epoch FROM z9_now() - opened_at) AS age, extract(epoch FROM z9_now() - closed_at) AS closed_age"
)


def write_of(row: Row) -> WriteRecord:
    """Returns a `writes` row as a record, its ages by the database's clock."""
    closed: Any = row["closed_age"]
    return WriteRecord(
        id=row["id"],
        resource=row["resource"],
        job=row["job"],
        step=row["step"],
        target=row["target"],
        node=row["node"],
        request=row["request"],
        upid=row["upid"],
        opened_at=row["opened_at"],
        age_seconds=float(row["age"]),
        outcome=row["outcome"],
        exit_text=row["exit_text"],
        closed_age_seconds=None if closed is None else float(closed),
        intent_version=row["intent_version"],
    )
