"""Ten thousand machines of other people: made from a seed, listed, and never in anybody's way."""

import time
from collections import Counter

import aiohttp
import pytest
from sandbox_api import Api

from zone9.pve import inventory, selftest
from zone9.pve.client import Client, Endpoint
from zone9.sandbox import Sandbox
from zone9.sandbox.inventory import Shape, fill

NODES = ("pve1", "pve2", "pve3", "pve4", "pve5")


async def test_ten_thousand_load_and_are_listed() -> None:
    async with Sandbox(NODES, seed=1) as sandbox:
        began = time.perf_counter()
        sandbox.add_inventory()
        assert time.perf_counter() - began < 5  # 0.4 s on an idle core
        async with Client(Endpoint((sandbox.url,), sandbox.token, sandbox.fingerprint)) as client:
            seen = await inventory.read(client)
            again = await inventory.read(client)
            assert await selftest.self_test(client, max_skew=1e9) == ()
        assert seen.complete
        assert Counter(row.type for row in seen.guests.values()) == {"qemu": 10_012, "lxc": 500}
        assert inventory.changed_rows(seen.guests, again.guests).suspects == set()
        assert {row.node for row in seen.guests.values()} == set(NODES)
        kinds = Counter(row.status for row in seen.guests.values())
        assert kinds["running"] > 6_500
        assert kinds["stopped"] > 2_000
        assert {row.lock for row in seen.guests.values()} >= {"backup", "snapshot", None}
        assert sum(row.template for row in seen.guests.values()) == 12
        assert len({row.pool for row in seen.guests.values()}) == 26
        assert sandbox.violations == []


def configs(sandbox: Sandbox) -> dict[int, str]:
    return {vmid: vm.file.render() for vmid, vm in sandbox.vms.items()}


def test_a_seed_has_one_outcome() -> None:
    first, second, other = (Sandbox(NODES) for _ in range(3))
    for sandbox, seed in ((first, 3), (second, 3), (other, 4)):
        sandbox.add_inventory(seed, vms=300, containers=20)
    assert configs(first) == configs(second)
    assert first.cluster.containers.keys() == second.cluster.containers.keys()
    assert configs(first) != configs(other)
    assert {vm.vmid for vm in first.vms.values() if vm.running} == {
        vm.vmid for vm in second.vms.values() if vm.running
    }


def test_numbers_that_are_taken_are_passed_over() -> None:
    sandbox = Sandbox(("pve1",))
    for vmid in range(100, 200, 3):
        sandbox.add_vm(vmid, name="there before")
    fill(sandbox.world, Shape(vms=100, containers=30))
    assert len(sandbox.vms) == 34 + 100 + 12
    assert sum(vm.name == "there before" for vm in sandbox.vms.values()) == 34
    assert not sandbox.vms.keys() & sandbox.cluster.containers.keys()


@pytest.fixture
def furnished(sandbox: Sandbox) -> Sandbox:
    sandbox.add_inventory(vms=60, containers=10, templates=2, pools=3)
    return sandbox


async def test_they_are_machines_like_others(furnished: Sandbox, api: Api) -> None:
    template = next(vm for vm in furnished.vms.values() if vm.is_template and vm.vmid != 9000)
    where = f"/nodes/{template.node}/qemu"
    assert await api.task("POST", f"{where}/{template.vmid}/clone", newid=9500) == "OK"
    assert await api.task("POST", f"{where}/9500/status/start") == "OK"
    for vm in [vm for vm in furnished.vms.values() if vm.lock is None and not vm.is_template]:
        assert (await api.config(vm.vmid, vm.node))["digest"] == vm.file.digest
        path = f"/nodes/{vm.node}/qemu/{vm.vmid}"
        if vm.running:
            assert await api.task("POST", f"{path}/status/stop") == "OK"
        assert await api.task("POST", f"{path}/status/start") == "OK"
        assert await api.task("POST", f"{path}/status/stop") == "OK"
        linked = [one.volid for one in [v for _, _, v in furnished.cluster.volumes()] if one.vmid == vm.vmid]
        assert linked
        assert await api.task("DELETE", path) == "OK"
        assert [v.volid for _, _, v in furnished.cluster.volumes() if v.vmid == vm.vmid] == []


async def test_a_container_is_shown_and_takes_its_number(furnished: Sandbox, api: Api, wide_api: Api) -> None:
    one = next(iter(furnished.cluster.containers.values()))
    name = one.values["hostname"]
    rows = await api.ok("GET", "/cluster/resources", type="vm")
    (row,) = [row for row in rows if row["vmid"] == one.vmid]
    assert (row["id"], row["type"], row["node"], row["name"]) == (f"lxc/{one.vmid}", "lxc", one.node, name)
    listed = await api.ok("GET", f"/nodes/{one.node}/lxc")
    assert name in {row["name"] for row in listed}
    assert one.vmid not in {row["vmid"] for row in await api.ok("GET", f"/nodes/{one.node}/qemu")}
    path = f"/nodes/{one.node}/lxc/{one.vmid}"
    config = await api.ok("GET", f"{path}/config")
    assert (config["hostname"], config["memory"]) == (name, int(one.values["memory"]))
    assert len(config["digest"]) == 40
    status = await api.ok("GET", f"{path}/status/current")
    assert status["status"] == ("stopped" if one.since is None else "running")

    taken = await api.ask("GET", "/cluster/nextid", vmid=one.vmid)
    assert (taken.status, taken.errors) == (400, {"vmid": f"VM {one.vmid} already exists"})
    refused = await wide_api.ask("POST", f"/nodes/{one.node}/qemu", vmid=one.vmid)
    assert refused.reason == (
        f"unable to create VM {one.vmid} - CT {one.vmid} already exists on node '{one.node}'"
    )
    assert await api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=one.vmid) == (
        f"close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/{one.vmid}.conf' failed: File exists"
    )
    absent = await api.ask("GET", f"/nodes/{one.node}/qemu/{one.vmid}/config")
    assert absent.reason == (
        f"Configuration file 'nodes/{one.node}/qemu-server/{one.vmid}.conf' does not exist"
    )
    unknown = await api.ask("GET", f"/nodes/{one.node}/lxc/9000/config")
    assert unknown.reason == f"Configuration file 'nodes/{one.node}/lxc/9000.conf' does not exist"
    assert furnished.violations == []

    furnished.set_node_online(one.node, online=False)
    rows = await api.ok("GET", "/cluster/resources", type="vm")
    (row,) = [row for row in rows if row["vmid"] == one.vmid]
    assert row["status"] == "unknown"
    assert "name" not in row


async def test_nothing_can_be_done_to_a_container(furnished: Sandbox, api: Api) -> None:
    one = next(iter(furnished.cluster.containers.values()))
    for verb, path in (("POST", "/status/start"), ("PUT", "/config"), ("DELETE", "")):
        refused = await api.ask(verb, f"/nodes/{one.node}/lxc/{one.vmid}{path}")
        assert refused.status in {403, 501}
    assert one.vmid in furnished.cluster.containers


async def test_rights_filter_containers_too(furnished: Sandbox) -> None:
    token = furnished.accounts.add_token("nobody@pve!none")
    nobody = Api(furnished, token)
    for path in ("/cluster/resources?type=vm", *(f"/nodes/{node}/lxc" for node in ("pve1", "pve2"))):
        assert await nobody.ok("GET", path) == []
    await nobody.close()


async def test_another_process_can_ask_for_it(sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{sandbox.control_url}/inventory", json={"vms": 50, "seed": 2}) as answer:
            assert (answer.status, await answer.json()) == (200, {"vms": 63})
        async with http.post(f"{sandbox.control_url}/inventory", json={"wms": 50}) as answer:
            assert answer.status == 400
