"""Servers, as the loop and the API know them."""

from collections.abc import Mapping
from typing import Any

from zone9.base.errors import FieldProblem
from zone9.model.facts import Intent
from zone9.model.plans import Plan, Step
from zone9.model.ports import Action, Look, Resolved, Work
from zone9.model.states import Phase
from zone9.products.servers import decisions
from zone9.products.servers import intent as asking
from zone9.products.servers.apply import apply
from zone9.products.servers.observe import observe
from zone9.products.servers.plan import plan
from zone9.products.servers.resolve import resolve
from zone9.products.servers.truth import ServerTruth

# Keys of a VM's config that a proof may show in clear; everything else is left out or kept as a keyed digest.
CLEAR = [
    "name",
    "cores",
    "sockets",
    "memory",
    "tags",
    "boot",
    "bios",
    "machine",
    "ostype",
    "scsihw",
    "onboot",
    "protection",
    "lock",
    "template",
    "agent",
    "balloon",
]


class Servers:
    """Is `model.ports.Product` for servers."""

    kind = "server"
    prefix = "srv"
    collection = "servers"
    is_global = False
    outside = True
    budget_seconds = 60.0
    spec_model = asking.ServerSpec
    actions: Mapping[str, Action] = {
        "start": Action("start", asking.start),
        "stop": Action("stop", asking.stop),
        "shutdown": Action("shutdown", asking.shutdown, asking.ShutdownBody),
        "restart": Action("restart", asking.restart),
        "recreate": Action("recreate", decisions.recreate),
        "link": Action("link", decisions.link, decisions.LinkBody),
        "forget": Action("forget", decisions.forget, phase=Phase.DELETING),
        "release": Action("release", decisions.release, phase=Phase.DELETING),
    }

    def problems(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        return asking.problems(before, after)

    async def resolve(
        self, name: str, spec: Mapping[str, Any], before: Intent | None, look: Look
    ) -> Resolved:
        return await resolve(name, spec, before, look)

    def truth_of(self, observed: Mapping[str, Any] | None) -> ServerTruth:
        return ServerTruth() if observed is None else ServerTruth.model_validate(observed["truth"])

    async def observe(self, intent: Intent, work: Work) -> ServerTruth:
        return await observe(intent, work)

    def plan(self, intent: Intent, truth: ServerTruth) -> Plan:
        return plan(intent, truth)

    async def apply(self, step: Step, intent: Intent, truth: ServerTruth, work: Work) -> None:
        await apply(step, intent, truth, work)

    def as_observed(self, truth: ServerTruth) -> Mapping[str, Any]:
        """Returns what people are shown, and (under `truth`) what a dry run plans against."""
        now = truth.now
        kept = truth.model_dump(mode="json", exclude={"config", "pending", "unsettled", "failed"})
        return {
            "vm": truth.vm,
            "node": truth.node,
            "status": truth.status,
            "cores": None if now is None else now.cores,
            "memory_mib": None if now is None else now.memory_mib,
            "name": None if now is None else now.name,
            "tags": None if now is None else list(now.tags),
            "uuid": None if now is None else now.uuid,
            "disk_bytes": truth.disk_bytes,
            "uptime": truth.uptime,
            "lock": truth.lock,
            "digest": truth.digest,
            "pending": sorted(truth.pending),
            "truth": kept,
        }

    def proof_of(self, truth: ServerTruth) -> tuple[Mapping[str, Any], str | None]:
        shown = {key: value for key, value in truth.config.items() if key in CLEAR}
        document = {
            "vm": truth.vm,
            "node": truth.node,
            "status": truth.status,
            "uuid": None if truth.now is None else truth.now.uuid,
            "config": shown,
            "keys": sorted(truth.config),
            "pending": sorted(truth.pending),
            "absent": truth.absent_text,
        }
        return document, truth.digest

    def witness(self, intent: Intent) -> str:
        return f"Proxmox of region {intent.spec.get('region', '')}"
