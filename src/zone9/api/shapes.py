"""How resources and jobs look in JSON: the models of the OpenAPI document, and the way from rows to them.

Health is derived here when it is read: a reading older than its budget is `unknown`, whatever it said.
"""

from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field

from zone9.api.problems import message_in
from zone9.model import words
from zone9.model.etags import etag
from zone9.model.ports import Product
from zone9.model.states import Convergence, Health, Origin
from zone9.store.database import Row

HARMLESS_FACTS = ("vmid", "node", "uuid")


class Words(BaseModel):
    """A sentence by code, in the language asked for."""

    code: str | None
    text: str


class State(BaseModel):
    """Three fields, and the one chip that people see."""

    origin: Origin
    convergence: Convergence
    health: Health
    chip: str = Field(description="the one word by precedence; stable, never translated")
    label: str = Field(description="the chip in the language asked for")


class VerdictShape(BaseModel):
    """What the last measurement concluded, for which version, when (before its first read), and who was asked."""

    observed_intent_version: int | None
    measured_at: datetime | None
    witness: str | None
    message: Words | None
    diffs: list[dict[str, Any]]


class Resource(BaseModel):
    """A resource: what was asked, what was read, and both version numbers."""

    id: str
    kind: str
    name: str
    project: str | None
    spec: dict[str, Any]
    intent_version: int
    applied_version: int | None
    state: State
    verdict: VerdictShape
    observed: dict[str, Any] | None
    facts: dict[str, Any] = Field(description="what zone9 wrote down in order to find its own work again")
    created_at: datetime
    changed_at: datetime
    applied_at: datetime | None
    deleted_at: datetime | None = Field(description="when its absence was read back")


class Opened(Resource):
    """A resource that somebody looks at."""

    verifying: str | None = Field(
        description="the measuring job that is under way, since the reading is older than its budget"
    )


class Page(BaseModel):
    """A page of a list."""

    items: list[Resource]
    next_page_token: str | None
    page_size: int


class Job(BaseModel):
    """A job: poll this, never the resource."""

    id: str
    kind: str
    resource: str
    resource_kind: str
    resource_name: str
    project: str | None
    intent_version: int
    status: str
    actor: str
    needs: str | None
    attempt: int
    steps: list[dict[str, Any]]
    notes: list[str]
    evidence: dict[str, Any] | None
    error: Words | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobPage(BaseModel):
    """A page of jobs, newest first."""

    items: list[Job]
    next_page_token: str | None
    page_size: int


class Rows(BaseModel):
    """A page of plain rows."""

    items: list[dict[str, Any]]
    next_page_token: str | None
    page_size: int


class Mutation(BaseModel):
    """What a mutation came to; `job` is null when nothing is left to do."""

    resource: Resource
    job: Job | None


class Rehearsal(BaseModel):
    """What a mutation would do; nothing was changed."""

    plan: list[dict[str, Any]]
    diffs: list[dict[str, Any]]


def resource_shape(row: Row, product: Product, language: str) -> dict[str, Any]:
    """Returns a resource row as JSON."""
    convergence, origin = Convergence(row["convergence"]), Origin(row["origin"])
    health = Health(row["health"])
    if product.outside:
        health = words.fresh_health(health, row["measured_at"], row["now"], product.budget_seconds)
    chip = words.chip(origin, convergence, health, never_measured=row["measured_at"] is None)
    observed = row["observed"]
    if observed is not None:
        observed = {key: value for key, value in observed.items() if key != "truth"}
    return {
        "id": row["id"],
        "kind": row["kind"],
        "name": row["name"],
        "project": row["project_name"],
        "spec": {key: value for key, value in row["spec"].items() if key != "token_secret"},
        "intent_version": row["intent_version"],
        "applied_version": row["applied_version"],
        "state": {
            "origin": origin,
            "convergence": convergence,
            "health": health,
            "chip": chip,
            "label": words.in_language(chip, language),
        },
        "verdict": {
            "observed_intent_version": row["observed_intent_version"],
            "measured_at": row["measured_at"],
            "witness": row["witness"],
            "message": message_in(language, row["message"]),
            "diffs": row["diffs"],
        },
        "observed": observed,
        "facts": {key: row["facts"][key] for key in HARMLESS_FACTS if row["facts"].get(key) is not None},
        "created_at": row["created_at"],
        "changed_at": row["changed_at"],
        "applied_at": row["applied_at"],
        "deleted_at": row["deleted_at"],
    }


def is_stale(row: Row, product: Product) -> bool:
    """Tells whether the newest reading, or the lack of any, is older than the kind's budget."""
    age: timedelta = row["now"] - (row["measured_at"] or row["created_at"])
    return product.outside and age.total_seconds() > product.budget_seconds


def job_shape(row: Row, language: str) -> dict[str, Any]:
    """Returns a job row as JSON."""
    shown = {key: row[key] for key in Job.model_fields if key not in {"project", "error"}}
    return {**shown, "project": row["project_name"], "error": message_in(language, row["error"])}


def etag_of(row: Row, epoch: int) -> str:
    """Returns the ETag of a resource row."""
    return etag(epoch, row["intent_version"], row["name"], row["spec"])
