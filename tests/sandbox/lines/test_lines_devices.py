"""Lines of the measured facts about disks, cards, memory and processors (6.2), and what does not grow (scale)."""

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox

VM = "/nodes/pve1/qemu/101"
MAC = "BC:24:11:00:00:01"


@pytest.fixture
async def vm_api(sandbox: Sandbox, api: Api) -> Api:
    """Is a client with VM 101, which runs."""
    sandbox.add_vm(
        101, name="web1", disk="64M", memory="128", net0=f"virtio={MAC},bridge=vmbr0", running=True
    )
    return api


async def test_6_2_disks_3_an_import_is_hot_plugged(sandbox: Sandbox, vm_api: Api) -> None:
    volid = sandbox.add_import("base.qcow2", 64 * 2**20)
    await vm_api.ok("PUT", f"{VM}/config", scsi1=f"vmstore:0,import-from={volid}")
    assert await vm_api.task("POST", f"{VM}/config", scsi2=f"vmstore:0,import-from={volid}") == "OK"
    config = await vm_api.config(101, current=1)
    assert config["scsi1"].endswith("size=64M")
    assert config["scsi2"].endswith("size=64M")


async def test_6_2_disks_7_growing(vm_api: Api) -> None:
    assert await vm_api.task("PUT", f"{VM}/resize", disk="scsi0", size="+1000T") == "OK"
    assert "size=1048576064M" in (await vm_api.config(101))["scsi0"]
    assert await vm_api.task("PUT", f"{VM}/resize", disk="scsi7", size="+1G") != "OK"


async def test_6_2_disks_8_a_tpm_state(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101, name="web1", disk="64M")
    await api.ok("PUT", f"{VM}/config", tpmstate0="vmstore:1,version=v2.0")
    assert (await api.config(101))["tpmstate0"].endswith("size=4M,version=v2.0")


async def test_6_2_nics_1_a_card_comes_and_changes_while_it_runs(vm_api: Api) -> None:
    await vm_api.ok("PUT", f"{VM}/config", net1="virtio,bridge=vmbr0")
    card = (await vm_api.config(101, current=1))["net1"]
    assert card.startswith("virtio=BC:24:11:")
    await vm_api.ok("PUT", f"{VM}/config", net1=f"{card},link_down=1,firewall=1")
    assert "net1" not in {key for key, row in (await vm_api.pending(101)).items() if "pending" in row}
    assert "link_down=1" in (await vm_api.config(101, current=1))["net1"]


@pytest.mark.parametrize(
    ("card", "status"),
    [
        (f"virtio={MAC},bridge=vmbr0,tag=4094", 200),
        (f"virtio={MAC},bridge=vmbr0,tag=4095", 400),
        ("virtio=01:00:00:00:00:01,bridge=vmbr0", 400),
        ("virtio=BC-24-11-00-00-02,bridge=vmbr0", 400),
        ("virtio=00:00:00:00:00:00,bridge=vmbr0", 200),
    ],
)
async def test_6_2_nics_3_tags_and_macs(sandbox: Sandbox, api: Api, card: str, status: int) -> None:
    sandbox.add_vm(101)
    assert (await api.ask("PUT", f"{VM}/config", net0=card)).status == status


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("ip=10.0.0.9/24,gw=192.168.0.1", 200),
        ("ip=10.99.0.0/24", 200),
        ("ip=dhcp,gw=10.0.0.1", 200),
        ("ip=manual", 200),
        ("ip=10.0.0.9", 400),
        ("gw=10.0.0.1", 400),
    ],
)
async def test_6_2_nics_4_addresses(sandbox: Sandbox, api: Api, line: str, status: int) -> None:
    sandbox.add_vm(101, cloudinit=True)
    assert (await api.ask("PUT", f"{VM}/config", ipconfig5=line)).status == status


async def test_6_2_nics_4_an_empty_address_reads_back_as_a_space(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101, cloudinit=True, net0=f"virtio={MAC},bridge=vmbr0")
    await api.ok("PUT", f"{VM}/config", ipconfig0="")
    assert (await api.config(101))["ipconfig0"] == " "


async def test_6_2_nics_5_the_drive_is_behind(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101, cloudinit=True, net0=f"virtio={MAC},bridge=vmbr0", running=True)
    await api.ok("PUT", f"{VM}/config", ipconfig0="ip=10.0.0.9/24")
    rows = {row["key"]: row for row in await api.ok("GET", f"{VM}/cloudinit")}
    assert rows["ipconfig0"]["pending"] == "ip=10.0.0.9/24"


async def test_6_2_memory_cpu_1_what_a_config_takes_and_a_start_refuses(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101)
    sandbox.cluster.nodes["pve1"].cpus = 2
    assert (await api.ask("PUT", f"{VM}/config", memory=15)).status == 400
    await api.ok("PUT", f"{VM}/config", cores=129, sockets=4, memory=10**6)
    answer = await api.ask("PUT", f"{VM}/config", affinity="0")
    assert (answer.status, answer.reason) == (500, "only root can set 'affinity' config")
    assert await api.task("POST", f"{VM}/status/start") == "MAX 2 vcpus allowed per VM on this node"


async def test_6_2_memory_cpu_6_a_pending_delete_hides_a_key(sandbox: Sandbox, vm_api: Api) -> None:
    sandbox.vms[101].file.put("localtime", "1")
    await vm_api.ok("PUT", f"{VM}/config", delete="localtime")
    assert "localtime" not in await vm_api.config(101)
    assert (await vm_api.pending(101))["localtime"]["delete"] == 1
    await vm_api.ok("PUT", f"{VM}/config", revert="localtime")
    assert (await vm_api.config(101))["localtime"] == 1


async def test_6_2_scale_2_and_4_reads_of_one_vm_are_the_same_among_thousands(
    sandbox: Sandbox, api: Api
) -> None:
    alone = await api.config(9000)
    sandbox.add_inventory(seed=1, vms=2_000)
    assert await api.config(9000) == alone
    assert len(await api.ok("GET", "/cluster/resources", type="vm")) > 2_000
    assert await api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=900_001) == "OK"
