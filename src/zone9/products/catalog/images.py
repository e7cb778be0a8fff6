"""Images: a template that is there in a region. Its digest is over named config keys, and says so."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from zone9.base.errors import FieldProblem, Never
from zone9.model.facts import Intent, Message
from zone9.model.plans import Plan, Step, Wait
from zone9.model.ports import Action, Look, Resolved, Work
from zone9.model.states import Phase
from zone9.products.catalog import intent as asking
from zone9.pve.driver import RegionDriver
from zone9.pve.vm import Absent, Placeholder, locate, read_vm

DIGEST_KEYS = (
    "bios",
    "boot",
    "cpu",
    "efidisk0",
    "machine",
    "ostype",
    "scsi0",
    "scsihw",
    "virtio0",
    "sata0",
    "ide0",
)


class ImageTruth(BaseModel):
    """Is one look at a template. `digest` is over `digest_keys` of its config, not over its disks' bytes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    node: str | None = None
    template: bool | None = None
    name: str | None = None
    digest: str | None = None
    digest_keys: tuple[str, ...] = DIGEST_KEYS


class Images:
    """Is `model.ports.Product` for images."""

    kind = "image"
    prefix = "img"
    collection = "images"
    is_global = True
    outside = True
    budget_seconds = 600.0
    spec_model = asking.ImageSpec
    actions: Mapping[str, Action] = {}

    def problems(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        found: tuple[FieldProblem, ...] = asking.fixed("region", "vmid")(before, after)
        return found

    async def resolve(
        self, name: str, spec: Mapping[str, Any], before: Intent | None, look: Look
    ) -> Resolved:
        region = await look.find("region", spec["region"], pointer="/spec/region")
        return Resolved({"region": region["id"]}, (region["id"],))

    def truth_of(self, observed: Mapping[str, Any] | None) -> ImageTruth:
        return ImageTruth() if observed is None else ImageTruth.model_validate(observed)

    async def observe(self, intent: Intent, work: Work) -> ImageTruth:
        if intent.phase is Phase.DELETING:
            return ImageTruth()
        driver: RegionDriver = await work.driver(intent.resolved["region"])
        node = await locate(driver.client, intent.spec["vmid"])
        if node is None:
            return ImageTruth()
        reading = await read_vm(driver.client, node, intent.spec["vmid"])
        if isinstance(reading, Absent | Placeholder):
            return ImageTruth()
        named = {key: reading.config[key] for key in DIGEST_KEYS if key in reading.config}
        digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
        return ImageTruth(node=node, template=reading.template, name=reading.name, digest=digest)

    def plan(self, intent: Intent, truth: ImageTruth) -> Plan:
        if intent.phase is Phase.DELETING:
            return Plan(gone=True)
        vmid = intent.spec["vmid"]
        if truth.node is None:
            message = Message("template_not_seen", f"no VM {vmid} is visible in the region", {"vmid": vmid})
        elif not truth.template:
            message = Message(
                "not_a_template", f"VM {vmid} is not a template; convert it in Proxmox", {"vmid": vmid}
            )
        else:
            return Plan()
        return Plan(wait=Wait(message, 20.0, needs="template"), health="degraded", health_message=message)

    async def apply(self, step: Step, intent: Intent, truth: ImageTruth, work: Work) -> None:
        raise Never("an image has no steps", code="unknown_step")

    def as_observed(self, truth: ImageTruth) -> Mapping[str, Any]:
        return truth.model_dump(mode="json")

    def proof_of(self, truth: ImageTruth) -> tuple[Mapping[str, Any], str | None]:
        return truth.model_dump(mode="json"), truth.digest

    def witness(self, intent: Intent) -> str:
        return f"Proxmox of region {intent.spec.get('region', '')}"
