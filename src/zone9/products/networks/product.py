"""Networks, as the loop and the API know them."""

from collections.abc import Mapping
from typing import Any

from zone9.base.errors import FieldProblem, Never, Refused
from zone9.model.facts import Intent
from zone9.model.plans import Plan, Step
from zone9.model.ports import Action, Look, Resolved, Work
from zone9.model.states import Phase
from zone9.products.networks import intent as asking
from zone9.products.networks.plan import NetworkTruth, plan
from zone9.pve.client import url_path
from zone9.pve.driver import RegionDriver


class Networks:
    """Is `model.ports.Product` for networks."""

    kind = "network"
    prefix = "net"
    collection = "networks"
    is_global = False
    outside = True
    budget_seconds = 120.0
    spec_model = asking.NetworkSpec
    actions: Mapping[str, Action] = {}

    def problems(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        return asking.problems(before, after)

    async def resolve(
        self, name: str, spec: Mapping[str, Any], before: Intent | None, look: Look
    ) -> Resolved:
        region = await look.find("region", spec["region"], pointer="/spec/region")
        segment = {"region": region["id"], "bridge": spec["bridge"], "vlan": spec["vlan"]}
        if (other := await look.taken("network", **segment)) is not None:
            vlan = "untagged" if spec["vlan"] is None else f"VLAN {spec['vlan']}"
            sentence = f"{vlan} on {spec['bridge']} is the network {other} already"
            problem = FieldProblem("/spec/vlan", sentence, "vlan_taken")
            raise Refused(sentence, code="vlan_taken", status=409, fields=(problem,))
        return Resolved(segment, (region["id"],))

    def truth_of(self, observed: Mapping[str, Any] | None) -> NetworkTruth:
        return NetworkTruth() if observed is None else NetworkTruth.model_validate(observed)

    async def observe(self, intent: Intent, work: Work) -> NetworkTruth:
        """Asks each online node for its bridges; a deletion needs nobody's answer, since nothing was made."""
        if intent.phase is Phase.DELETING:
            return NetworkTruth()
        driver: RegionDriver = await work.driver(intent.resolved["region"])
        present: list[str] = []
        wanting: list[str] = []
        for node in await driver.client.get("/nodes"):
            if node.get("status") != "online":
                continue
            name = str(node["node"])
            path = url_path("nodes", name, "network")
            rows = await driver.client.get(path, node=name, type="any_bridge")
            there = any(row.get("iface") == intent.spec["bridge"] for row in rows)
            (present if there else wanting).append(name)
        return NetworkTruth(present=tuple(sorted(present)), wanting=tuple(sorted(wanting)), asked=True)

    def plan(self, intent: Intent, truth: NetworkTruth) -> Plan:
        return plan(intent, truth)

    async def apply(self, step: Step, intent: Intent, truth: NetworkTruth, work: Work) -> None:
        raise Never("a network has no steps", code="unknown_step")

    def as_observed(self, truth: NetworkTruth) -> Mapping[str, Any]:
        return truth.model_dump(mode="json")

    def proof_of(self, truth: NetworkTruth) -> tuple[Mapping[str, Any], str | None]:
        return truth.model_dump(mode="json"), None

    def witness(self, intent: Intent) -> str:
        return f"Proxmox of region {intent.spec.get('region', '')}"
