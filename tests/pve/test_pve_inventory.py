"""A pass over the cluster: what is complete, and what differs from the pass before."""

from dataclasses import replace
from typing import Any

import pytest
from pve_script import Error, Script

from zone9.pve import inventory
from zone9.pve.errors import Denied
from zone9.pve.inventory import Changes, GuestRow, changed_rows

NODE_ROWS = [
    {
        "type": "node",
        "id": "node/pve1",
        "node": "pve1",
        "status": "online",
        "maxcpu": 8,
        "maxmem": 64,
        "uptime": 9,
    },
    {"type": "node", "id": "node/pve2", "node": "pve2", "status": "online"},
]
MEMBERS = [
    {"type": "cluster", "name": "lab", "quorate": 1, "nodes": 2},
    {"type": "node", "name": "pve1", "online": 1},
    {"type": "node", "name": "pve2", "online": 1},
]
VM = {
    "type": "qemu",
    "vmid": 101,
    "node": "pve1",
    "status": "running",
    "name": "web1",
    "uptime": 7,
    "template": 0,
}
FRESH = {"type": "qemu", "vmid": "102", "node": "pve2", "status": "unknown", "lock": "clone"}
STORAGE = {
    "type": "storage",
    "storage": "fast",
    "node": "pve1",
    "status": "available",
    "content": "images,iso",
    "shared": 1,
    "disk": 5,
    "maxdisk": 10,
}


async def test_a_pass_takes_two_requests() -> None:
    rows = [*NODE_ROWS, VM, FRESH, STORAGE, {"type": "network", "id": "network/pve1/zone/localnetwork"}]
    script = Script({"GET /cluster/status": MEMBERS, "GET /cluster/resources": rows})
    async with script.client() as client:
        seen = await inventory.read(client)
    assert len(script.requests) == 2
    assert (seen.complete, seen.quorate, seen.cluster) == (True, True, "lab")
    assert seen.guests[101].name == "web1"
    assert (seen.guests[102].name, seen.guests[102].status, seen.guests[102].lock) == (
        None,
        "unknown",
        "clone",
    )
    assert seen.nodes["pve1"].maxcpu == 8
    assert seen.storages[0].content == {"images", "iso"}
    assert seen.storages[0].shared


@pytest.mark.parametrize(
    ("status", "rows", "gap"),
    [
        ([{**MEMBERS[0], "quorate": 0}, *MEMBERS[1:]], NODE_ROWS, "The cluster has no quorum."),
        ([*MEMBERS[:2], {**MEMBERS[2], "online": 0}], NODE_ROWS, "Node pve2 is offline."),
        (MEMBERS, NODE_ROWS[:1], "Node pve2 is not listed."),
        (MEMBERS, [*NODE_ROWS, VM, VM], "VM 101 is listed twice."),
        ([], NODE_ROWS, "The cluster names no member."),
    ],
)
def test_what_makes_a_pass_incomplete(status: list[Any], rows: list[Any], gap: str) -> None:
    seen = inventory.assemble(status, rows)
    assert not seen.complete
    assert gap in seen.gaps


def test_a_node_without_a_cluster_is_its_own_quorum() -> None:
    seen = inventory.assemble([{"type": "node", "name": "pve1", "online": 1, "local": 1}], NODE_ROWS[:1])
    assert (seen.complete, seen.quorate, seen.cluster) == (True, True, None)


async def test_a_forbidden_pass_is_no_pass() -> None:
    script = Script({"GET /cluster/status": Error(403, "Permission check failed (/, Sys.Audit)")})
    async with script.client() as client:
        with pytest.raises(Denied):
            await inventory.read(client)


BEFORE = GuestRow(101, "qemu", "pve1", "running", name="web1", uptime=100)


@pytest.mark.parametrize(
    ("after", "differs"),
    [
        (replace(BEFORE, uptime=110), False),
        (replace(BEFORE, uptime=3), True),
        (replace(BEFORE, node="pve2"), True),
        (replace(BEFORE, status="stopped", uptime=0), True),
        (replace(BEFORE, name=None), True),
        (replace(BEFORE, maxdisk=1), True),
        (replace(BEFORE, lock="backup"), True),
    ],
)
def test_rows_that_differ(after: GuestRow, differs: bool) -> None:
    changes = changed_rows({101: BEFORE}, {101: after})
    assert changes == Changes(changed=frozenset({101} if differs else set()))


def test_rows_that_come_and_go() -> None:
    other = replace(BEFORE, vmid=102)
    changes = changed_rows({101: BEFORE}, {102: other})
    assert changes == Changes(appeared=frozenset({102}), vanished=frozenset({101}))
    assert changes.suspects == {101, 102}
