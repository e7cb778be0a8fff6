"""Regions: a Proxmox cluster, whose truth is its self-test."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from zone9.base.errors import FieldProblem, Never, Refused
from zone9.model.facts import Intent, Message
from zone9.model.plans import Plan, Step, Wait
from zone9.model.ports import Action, Look, Resolved, Work
from zone9.model.states import Phase
from zone9.products.catalog import intent as asking
from zone9.pve import inventory
from zone9.pve.driver import RegionDriver
from zone9.pve.selftest import role_commands, self_test


class FindingTruth(BaseModel):
    """Is one thing that is wrong with a region."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str
    severity: str
    sentence: str


class RegionTruth(BaseModel):
    """Is one self-test."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    findings: tuple[FindingTruth, ...] = ()
    nodes: dict[str, str] = {}
    storages: tuple[str, ...] = ()
    guests: int | None = None
    canary_visible: bool | None = None
    role_commands: tuple[str, ...] = ()


class Regions:
    """Is `model.ports.Product` for regions."""

    kind = "region"
    prefix = "reg"
    collection = "regions"
    is_global = True
    outside = True
    budget_seconds = 120.0
    spec_model = asking.RegionSpec
    actions: Mapping[str, Action] = {}

    def problems(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        if after["vmid_first"] > before["vmid_first"] or after["vmid_last"] < before["vmid_last"]:
            sentence = "the VMID range can only grow"
            return (FieldProblem("/spec/vmid_first", sentence, "vmid_range_shrinks"),)
        return ()

    async def resolve(
        self, name: str, spec: Mapping[str, Any], before: Intent | None, look: Look
    ) -> Resolved:
        """Seals the token's secret; the spec keeps only its reference."""
        secret = spec.get("token_secret")
        known = None if before is None else before.spec.get("token_ref")
        if spec.get("token_ref") != known:
            sentence = "token_ref is zone9's own; give token_secret"
            raise Refused(
                sentence, code="token_ref", fields=(FieldProblem("/spec/token_ref", sentence, "token_ref"),)
            )
        if secret is None and known is None:
            sentence = "token_secret is needed"
            raise Refused(
                sentence, code="missing", fields=(FieldProblem("/spec/token_secret", sentence, "missing"),)
            )
        ref = known if secret is None else await look.seal(secret)
        return Resolved({}, (), {**spec, "token_secret": None, "token_ref": ref})

    def truth_of(self, observed: Mapping[str, Any] | None) -> RegionTruth:
        return RegionTruth() if observed is None else RegionTruth.model_validate(observed)

    async def observe(self, intent: Intent, work: Work) -> RegionTruth:
        """Runs the self-test, and burns whatever is in our range and not ours."""
        if intent.phase is Phase.DELETING:
            return RegionTruth()
        driver: RegionDriver = await work.driver(intent.id)
        spec = intent.spec
        storages = (spec["storage"],) if spec["storage"] else ()
        findings = await self_test(driver.client, storages=storages)
        user, token = spec["token_id"].split("!", 1)
        errors = any(one.severity == "error" for one in findings)
        if any(one.code in {"pve_unauthenticated", "unreachable", "pve_not_connected"} for one in findings):
            return RegionTruth(
                findings=_plain(findings), role_commands=role_commands(user, token) if errors else ()
            )
        seen = await inventory.read(driver.client)
        ours = range(spec["vmid_first"], spec["vmid_last"] + 1)
        await work.burn_foreign(intent.id, tuple(vmid for vmid in seen.guests if vmid in ours))
        canary = spec["canary"]
        visible = None if canary is None else canary in seen.guests
        hidden = (_hidden(canary),) if visible is False else ()
        return RegionTruth(
            findings=(*_plain(findings), *hidden),
            nodes={name: node.status for name, node in sorted(seen.nodes.items())},
            storages=tuple(sorted({row.storage for row in seen.storages})),
            guests=len(seen.guests),
            canary_visible=visible,
            role_commands=role_commands(user, token) if errors else (),
        )

    def plan(self, intent: Intent, truth: RegionTruth) -> Plan:
        """A region has no steps; what its token or nodes lack is said, with what to do."""
        if intent.phase is Phase.DELETING:
            return Plan(gone=True)
        errors = [one.sentence for one in truth.findings if one.severity == "error"]
        if errors:
            message = Message("region_wanting", " ".join(errors), {"what": " ".join(errors)})
            return Plan(wait=Wait(message, 20.0, needs="region"), health="degraded", health_message=message)
        if truth.findings:
            text = " ".join(one.sentence for one in truth.findings)
            return Plan(health="degraded", health_message=Message("region_warning", text, {"what": text}))
        return Plan()

    async def apply(self, step: Step, intent: Intent, truth: RegionTruth, work: Work) -> None:
        raise Never("a region has no steps", code="unknown_step")

    def as_observed(self, truth: RegionTruth) -> Mapping[str, Any]:
        return truth.model_dump(mode="json")

    def proof_of(self, truth: RegionTruth) -> tuple[Mapping[str, Any], str | None]:
        return truth.model_dump(mode="json"), None

    def witness(self, intent: Intent) -> str:
        return f"Proxmox at {intent.spec['urls'][0]}"


def _hidden(canary: int) -> FindingTruth:
    return FindingTruth(
        code="canary_hidden", severity="error", sentence=f"The canary VM {canary} is not visible."
    )


def _plain(findings: Any) -> tuple[FindingTruth, ...]:
    return tuple(
        FindingTruth(code=one.code, severity=one.severity, sentence=one.sentence) for one in findings
    )
