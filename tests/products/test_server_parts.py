"""The pure parts around a server's plan: what may be asked, how a config reads, where it goes, what is written."""

from typing import Any

import pytest
from pydantic import ValidationError

from zone9.base.errors import Later, Refused
from zone9.model.facts import Intent
from zone9.model.states import Phase
from zone9.products.servers import intent, settings
from zone9.products.servers.intent import ServerSpec, problems
from zone9.products.servers.observe import boot_disk, settings_of
from zone9.products.servers.place import choose
from zone9.products.servers.truth import Nic, ServerTruth
from zone9.pve.inventory import GuestRow, Inventory, NodeRow, StorageRow

MINIMAL = {"region": "r", "plan": "p", "image": "i"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tags": ["UPPER"]}, "tags"),
        ({"tags": ["x" * 41]}, "tags"),
        ({"power": "maybe"}, "power"),
        ({"networks": [{"network": "n", "address": "10.0.0.300"}]}, "networks"),
        ({"cores": 0}, "cores"),
        ({"memory_mib": 8}, "memory_mib"),
        ({"stop": {"mode": "graceful", "timeout": 0}}, "stop"),
        ({"nosuch": 1}, "nosuch"),
    ],
)
def test_what_cannot_be_asked_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ServerSpec.model_validate({**MINIMAL, **change})
    assert refused.value.errors()[0]["loc"][0] == field


def spec(**change: Any) -> dict[str, Any]:
    return ServerSpec.model_validate({**MINIMAL, **change}).model_dump(mode="json")


def test_what_a_servers_data_depends_on_is_fixed() -> None:
    for field in intent.FIXED:
        changed = {**spec(), field: "another"}
        assert [one.pointer for one in problems(spec(), changed)] == [f"/spec/{field}"]
    assert problems(spec(), spec(power="off", tags=["a"])) == ()
    assert [one.code for one in problems(spec(), spec(restart_count=2))] == ["restart_count"]


def asked(**change: Any) -> Intent:
    return Intent("srv_1", "server", "p", "web1", 1, None, spec(**change), {}, {}, Phase.LIVE)


def test_a_restart_of_what_is_off_is_refused() -> None:
    with pytest.raises(Refused, match="is off"):
        intent.restart(asked(power="off"), {})
    assert intent.restart(asked(), {})["restart_count"] == 1
    assert intent.shutdown(asked(), {"timeout": 5})["stop"] == {"mode": "graceful", "timeout": 5}
    assert intent.stop(asked(), {})["stop"]["mode"] == "hard"


def test_a_config_is_read_into_one_form() -> None:
    read = settings_of(
        {
            "cores": 2, "sockets": 2, "memory": "current=2048", "name": "x", "tags": "b;a",
            "net0": "virtio=02:AA:00:00:00:01,bridge=vmbr0,tag=7,firewall=1",
            "ipconfig0": "ip=10.0.0.2/24,gw=10.0.0.1", "ipconfig1": " ",
            "sshkeys": "ssh-ed25519%20AAAA%20me%0A",
            "smbios1": "base64=1,serial=eA==,uuid=11111111-2222-4333-8444-55555555555A",
            "description": "zone9:srv_1:abc\nsomebody's note",
        }
    )  # fmt: skip
    assert (read.cores, read.memory_mib, read.tags) == (4, 2048, ("a", "b"))
    assert read.nics == {"net0": Nic(mac="02:aa:00:00:00:01", bridge="vmbr0", tag=7)}
    assert read.ipconfig == {"ipconfig0": "gw=10.0.0.1,ip=10.0.0.2/24"}
    assert read.ssh_keys == "ssh-ed25519 AAAA me"
    assert read.uuid == "11111111-2222-4333-8444-55555555555a"
    assert read.marker == "zone9:srv_1:abc"
    assert settings_of({"tags": " "}).tags == ()
    assert settings_of({}).memory_mib == 512


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"boot": "order=scsi0;net0", "scsi0": "s:vm-1-disk-0,size=2G"}, ("scsi0", 2 * 1024**3)),
        (
            {"boot": "order=scsi1", "scsi0": "s:a,size=1G", "scsi1": "s:b,size=1088M"},
            ("scsi1", 1088 * 1024**2),
        ),
        (
            {"ide2": "s:cloudinit,media=cdrom,size=4M", "virtio0": "s:x,size=104858K"},
            ("virtio0", 104858 * 1024),
        ),
        ({"scsihw": "virtio-scsi-single"}, (None, None)),
    ],
)
def test_the_boot_disk_is_found(config: dict[str, str], found: Any) -> None:
    assert boot_disk(config) == found


def test_others_sub_keys_stay_and_a_card_is_always_written_with_its_mac() -> None:
    truth = ServerTruth(
        config={
            "net0": "e1000=AA:BB:CC:00:00:01,bridge=vmbr9,firewall=1,rate=10",
            "smbios1": "base64=1,serial=c2VyaWFs,uuid=99999999-2222-4333-8444-555555555555",
            "description": "a note\nzone9:srv_1:old",
            "sockets": 2,
        }
    )
    card = {"mac": "02:00:00:00:00:01", "bridge": "vmbr0", "tag": 5}
    form = settings.to_proxmox(
        {
            "net0": card,
            "net1": card,
            "uuid": "11111111-2222-4333-8444-555555555555",
            "marker": "zone9:srv_1:new",
            "cores": 4,
        },
        truth,
    )
    assert form["net0"] == "e1000=02:00:00:00:00:01,bridge=vmbr0,firewall=1,rate=10,tag=5"
    assert form["net1"] == "virtio=02:00:00:00:00:01,bridge=vmbr0,tag=5"
    assert form["smbios1"] == "base64=1,serial=c2VyaWFs,uuid=11111111-2222-4333-8444-555555555555"
    assert form["description"] == "a note\nzone9:srv_1:new"
    assert (form["cores"], form["sockets"]) == (4, 1)
    assert "cipassword" not in form


def inventory(*, online: tuple[str, ...] = ("pve1", "pve2"), shared: bool = False) -> Inventory:
    nodes = {
        name: NodeRow(
            name, "online" if name in online else "offline", maxmem=32 * 1024**3, mem=used * 1024**3
        )
        for name, used in (("pve1", 20), ("pve2", 4))
    }
    guests = {
        9000: GuestRow(9000, "qemu", "pve1", "stopped", template=True),
        9001: GuestRow(9001, "qemu", "pve1", "stopped", template=False),
    }
    storages = tuple(StorageRow("ceph", node, "available", shared=shared) for node in nodes)
    return Inventory(guests, nodes, storages, quorate=True, cluster="c", gaps=())


def test_a_server_goes_where_its_image_is_and_elsewhere_only_on_shared_storage() -> None:
    assert choose(inventory(), (9000,), 512, None).node == "pve1"
    assert choose(inventory(shared=True), (9000,), 512, "ceph").node == "pve2"
    with pytest.raises(Later, match="no copy of the image is listed"):
        choose(inventory(), (9001,), 512, None)
    with pytest.raises(Later):
        choose(inventory(online=("pve2",)), (9000,), 512, None)
