"""Plans and SSH keys: they exist nowhere but in zone9, so a change of one is applied at once."""

from collections.abc import Callable, Mapping
from typing import Any

from zone9.base.errors import FieldProblem, Never
from zone9.model.facts import Intent
from zone9.model.plans import Plan, Step
from zone9.model.ports import Action, Look, Resolved, Work
from zone9.products.catalog import intent as asking


class HereOnly:
    """Is a product without an outside."""

    outside = False
    budget_seconds = float("inf")
    actions: Mapping[str, Action] = {}

    def __init__(
        self,
        kind: str,
        prefix: str,
        collection: str,
        spec_model: type[Any],
        problems: Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[FieldProblem, ...]],
        *,
        is_global: bool,
    ) -> None:
        self.kind = kind
        self.prefix = prefix
        self.collection = collection
        self.spec_model = spec_model
        self.problems = problems
        self.is_global = is_global

    async def resolve(
        self, name: str, spec: Mapping[str, Any], before: Intent | None, look: Look
    ) -> Resolved:
        return Resolved()

    def truth_of(self, observed: Mapping[str, Any] | None) -> None:
        return None

    async def observe(self, intent: Intent, work: Work) -> None:
        return None

    def plan(self, intent: Intent, truth: None) -> Plan:
        return Plan()

    async def apply(self, step: Step, intent: Intent, truth: None, work: Work) -> None:
        raise Never(f"a {self.kind} has no steps", code="unknown_step")

    def as_observed(self, truth: None) -> Mapping[str, Any]:
        return {}

    def proof_of(self, truth: None) -> tuple[Mapping[str, Any], str | None]:
        return {}, None

    def witness(self, intent: Intent) -> str:
        return "zone9"


def plans() -> HereOnly:
    """Sizes are fixed once made: a server's version holds the numbers it was asked with."""
    problems = asking.fixed("cores", "memory_mib", "disk_gib")
    return HereOnly("plan", "pln", "plans", asking.PlanSpec, problems, is_global=True)


def ssh_keys() -> HereOnly:
    return HereOnly(
        "ssh-key", "key", "ssh-keys", asking.SshKeySpec, asking.fixed("public_key"), is_global=False
    )
