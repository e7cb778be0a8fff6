"""How one step is done: look, act once, and leave the read-back to the next look.

Every write goes through `work.write`, with a `confirm` that reads the machine's identity again just before the
bytes leave: a VM that is not the one zone9 made gets nothing.
"""

import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from zone9.base.errors import Later, Never
from zone9.model.facts import Intent
from zone9.model.plans import Step
from zone9.model.ports import Permit, Work
from zone9.products.servers import place, settings
from zone9.products.servers.linking import link
from zone9.products.servers.observe import is_ours
from zone9.products.servers.plan import RECREATED, TAKEN
from zone9.products.servers.truth import Place, ServerTruth
from zone9.pve import inventory, tasks, writes
from zone9.pve.client import Client
from zone9.pve.driver import RegionDriver
from zone9.pve.errors import Exists
from zone9.pve.vm import Absent, Identity, read_identity


async def apply(step: Step, intent: Intent, truth: ServerTruth, work: Work) -> None:
    """Does one step. Raises what the driver raises; what became of a write is the next look's affair."""
    if step.name == "burn":
        return await _burn(step, intent, work)
    if step.name == "accept_shutdown":
        return await work.change_spec({"power": "off"}, actor="guest", cause="the guest shut itself down")
    driver: RegionDriver = await work.driver(intent.resolved["region"], writing=True)
    if step.name == "place":
        return await _place(driver, intent, work)
    if step.name == "link":
        return await link(driver, intent, work)
    assert truth.place is not None
    act = _Act(driver, intent, truth, truth.place, work)
    match step.name:
        case "clone":
            await act.clone(step)
        case "stop_clone":
            await act.stop_clone(step)
        case "configure":
            await act.configure(step)
        case "resize":
            await act.resize(step)
        case "start":
            await act.start(step)
        case "stop":
            await act.send(step, {}, writes.stop)
        case "shutdown":
            await act.send(
                step, {"timeout": step.args["timeout"]}, writes.shutdown, timeout=step.args["timeout"]
            )
        case "restart":
            await act.send(step, dict(step.args), writes.reboot, timeout=step.args["timeout"])
        case "delete":
            await act.send(step, {"purge": True, "destroy-unreferenced-disks": False}, writes.delete)
        case _:
            raise Never(f"no such step: {step.name}", code="unknown_step")
    return None


async def _place(driver: RegionDriver, intent: Intent, work: Work) -> None:
    """Chooses node and VMID, uuid and nonce, and writes them down before anything is sent."""
    resolved = intent.resolved
    seen = await inventory.read(driver.client)
    memory = intent.spec["memory_mib"] or resolved["memory_mib"]
    chosen = place.choose(seen, tuple(resolved["templates"]), memory, driver.storage)
    await work.place(
        region=resolved["region"],
        first=resolved["vmid_first"],
        last=resolved["vmid_last"],
        facts={
            "node": chosen.node,
            "template": chosen.template,
            "template_node": chosen.template_node,
            "uuid": str(uuid.uuid4()),
            "nonce": secrets.token_hex(8),
            "identified": False,
            "booted": False,
        },
    )


async def _burn(step: Step, intent: Intent, work: Work) -> None:
    """Gives the VMID up for good; the next one is taken after a pause when the clone itself had failed."""
    why = str(step.args["why"])
    await work.burn(region=intent.resolved["region"], vmid=int(step.args["vmid"]), why=why)
    await work.note(f"VMID {step.args['vmid']} is burnt: {why}")
    if why not in {TAKEN, RECREATED}:
        raise Later(f"the clone failed and is tried again with another VMID: {why}", code="clone_failed")


class _Act:
    """Is one step on a placed server."""

    def __init__(
        self, driver: RegionDriver, intent: Intent, truth: ServerTruth, place_: Place, work: Work
    ) -> None:
        self._driver = driver
        self._client: Client = driver.client
        self._intent = intent
        self._truth = truth
        self._place = place_
        self._work = work
        self._node = truth.node or place_.node

    async def clone(self, step: Step) -> None:
        where, driver = self._place, self._driver
        target = where.node if where.node != where.template_node else None
        storage = driver.storage if driver.full_clone else None
        description = f"zone9:{self._intent.id}:{where.nonce}"
        request = {
            "newid": where.vmid,
            "name": self._intent.name,
            "description": description,
            "target": target,
            "storage": storage,
            "full": driver.full_clone,
        }

        async def send(permit: Permit) -> str | None:
            upid = await writes.clone(
                self._client,
                permit,
                node=where.template_node,
                template=where.template,
                newid=where.vmid,
                name=self._intent.name,
                description=description,
                target=target,
                storage=storage,
                full=driver.full_clone,
            )
            return None if upid is None else upid.text

        lease = (f"clone:{self._intent.resolved['region']}:{where.template}", driver.clones_per_template)
        try:
            _record, upid = await self._work.write(
                step,
                target=str(where.vmid),
                node=where.template_node,
                request=request,
                send=send,
                confirm=self._still_absent,
                lease=lease,
            )
        except Exists:
            # No record of ours was open for this id (the plan would have waited): a stranger has it.
            await self._work.burn(region=self._intent.resolved["region"], vmid=where.vmid, why=TAKEN)
            return
        await self._stay_with(upid)

    async def stop_clone(self, step: Step) -> None:
        """Interrupts our own clone, since a delete would wait for its lock and take the finished VM."""
        upid = str(step.args["upid"])

        async def send(permit: Permit) -> str | None:
            await tasks.stop(self._client, upid, permit)
            return None

        record, _ = await self._work.write(
            step,
            target=str(self._place.vmid),
            node=self._node,
            request={"upid": upid},
            send=send,
            confirm=_nothing,
        )
        self._work.settle(record, "done")
        await tasks.wait(self._client, upid, self._driver.task_patience)

    async def configure(self, step: Step) -> None:
        """Writes only what differs, onto the lines just read, with their digest."""
        assert self._truth.digest is not None
        values = settings.to_proxmox(step.args, self._truth)
        if "tags" in step.args:
            ours = sorted({*self._truth.tags_ours, *self._intent.spec["tags"]})
            if tuple(ours) != self._truth.tags_ours:
                await self._work.record(tags_ours=ours)
        in_task = self._truth.status == "running" and settings.may_take_long(step.args)
        if in_task:
            await self.send(
                step,
                {**values, "task": True},
                writes.post_config,
                digest=self._truth.digest,
                settings=values,
            )
            return

        async def send(permit: Permit) -> str | None:
            await writes.set_config(
                self._client,
                permit,
                node=self._node,
                vmid=self._place.vmid,
                digest=str(self._truth.digest),
                settings=values,
            )
            return None

        record, _ = await self._work.write(
            step,
            target=str(self._place.vmid),
            node=self._node,
            request=values,
            send=send,
            confirm=self._still_ours,
        )
        self._work.settle(record, "done")

    async def resize(self, step: Step) -> None:
        disk = self._truth.disk_key
        assert disk is not None
        size = f"{int(step.args['bytes']) // 1024**3}G"
        await self.send(
            step, {"disk": disk, "size": size}, writes.resize, disk=disk, size=size, digest=self._truth.digest
        )

    async def start(self, step: Step) -> None:
        # A restart that was asked for while it was off is satisfied by this start.
        if step.args["restart_count"] > self._truth.restarts_done:
            await self._work.record(restarts_done=step.args["restart_count"])
        await self.send(step, {}, writes.start)

    async def send(
        self,
        step: Step,
        request: Mapping[str, Any],
        write: Callable[..., Awaitable[tasks.Upid | None]],
        **more: Any,
    ) -> None:
        """Sends a write that answers with a task, and stays with the task for a little while."""

        async def sent(permit: Permit) -> str | None:
            upid = await write(self._client, permit, node=self._node, vmid=self._place.vmid, **more)
            return None if upid is None else upid.text

        record, upid = await self._work.write(
            step,
            target=str(self._place.vmid),
            node=self._node,
            request=request,
            send=sent,
            confirm=self._still_ours,
        )
        if upid is None:
            self._work.settle(record, "done")
        await self._stay_with(upid)

    async def _stay_with(self, upid: str | None) -> None:
        if upid is None:
            return
        result = await tasks.wait(self._client, upid, self._driver.task_patience)
        if result.status == "stopped":
            self._work.receipts[upid] = result

    async def _still_ours(self) -> None:
        seen = await read_identity(self._client, self._node, self._place.vmid)
        if not isinstance(seen, Identity) or not is_ours(self._place, seen):
            raise Later(
                "the VM is not what it was a moment ago; nothing was sent", code="identity_changed", delay=1.0
            )

    async def _still_absent(self) -> None:
        seen = await read_identity(self._client, self._place.node, self._place.vmid)
        if not isinstance(seen, Absent):
            raise Exists("the VMID is taken")


async def _nothing() -> None:
    """A task is named by its id, which is never used again: nothing to look at."""
