"""Creates: what zone9 adds to the Proxmox tasks, and how many go at once. The sandbox's tasks take no time."""

import asyncio
import itertools
import time
from collections.abc import Iterator

from bench.kit import SERVER, Figure, Installation, median, percentile
from zone9.pve import tasks, writes
from zone9.pve.client import Client
from zone9.pve.vm import VmReading, read_vm

COUNT, PARALLEL = 60, 200
_vmids = itertools.count(50_000)


class Always:
    """Permits everything: the bare script has nobody to ask."""

    async def confirm(self) -> None:
        """Confirms."""

    def still_fresh(self) -> None:
        """Is fresh."""


async def bare_create(client: Client, template: int) -> float:
    """Does by hand what a create does: clone, configure, grow the disk, start, each waited for and read back."""
    vmid, node, permit, began = next(_vmids), "pve1", Always(), time.perf_counter()
    upid = await writes.clone(
        client, permit, node=node, template=template, newid=vmid, name=f"b{vmid}", description="bare"
    )
    assert upid is not None
    await tasks.wait(client, upid, 30)
    reading = await read_vm(client, node, vmid)
    assert isinstance(reading, VmReading)
    await writes.set_config(
        client, permit, node=node, vmid=vmid, digest=reading.digest,
        settings={"cores": 1, "memory": 512, "net0": "virtio=02:00:00:00:00:01,bridge=vmbr0", "ipconfig0": "ip=10.0.0.9/24"},
    )  # fmt: skip
    reading = await read_vm(client, node, vmid)
    assert isinstance(reading, VmReading)
    for upid in (
        await writes.resize(
            client, permit, node=node, vmid=vmid, disk="scsi0", size="4G", digest=reading.digest
        ),
        await writes.start(client, permit, node=node, vmid=vmid),
    ):
        assert upid is not None
        await tasks.wait(client, upid, 30)
    await read_vm(client, node, vmid)
    return (time.perf_counter() - began) * 1000


async def bare(made: Installation, count: int, at_once: int) -> tuple[list[float], float]:
    async with made.client() as client:
        slots, began = asyncio.Semaphore(at_once), time.perf_counter()

        async def one() -> float:
            async with slots:
                return await bare_create(client, made.sandbox["template"])

        times = await asyncio.gather(*(one() for _ in range(count)))
        return list(times), time.perf_counter() - began


def run(made: Installation) -> Iterator[Figure]:
    names = []
    for number in range(COUNT):
        answer = made.http.post("/v1/servers", json={"name": f"s{number}", "spec": SERVER}).json()
        made.wait(answer["job"]["id"])
        names.append(f"s{number}")
    ours = made.durations(names)
    alone, _ = asyncio.run(bare(made, COUNT, 1))
    yield Figure(
        "create, intent to applied, p50",
        median(ours),
        "ms",
        "the same Proxmox calls bare, p50",
        median(alone),
    )
    yield Figure(
        "create, intent to applied, p99", percentile(ours, 0.99), "ms", "the same Proxmox calls bare, p99",
        percentile(alone, 0.99),
    )  # fmt: skip
    yield Figure("what zone9 adds to a create, p50", median(ours) - median(alone), "ms", "the aim", 100.0)
    began = time.perf_counter()
    jobs = []
    for number in range(PARALLEL):
        answer = made.http.post("/v1/servers", json={"name": f"p{number}", "spec": SERVER}).json()
        jobs.append(answer["job"]["id"])
    for job in jobs:
        assert made.wait(job)["status"] == "succeeded"
    seconds = time.perf_counter() - began
    _, bare_seconds = asyncio.run(bare(made, PARALLEL, 8))
    yield Figure(
        f"creates with {PARALLEL} in parallel",
        PARALLEL / seconds,
        "a second",
        "bare calls, 8 at once",
        PARALLEL / bare_seconds,
    )
