"""A cluster as people really have them: thousands of machines that nobody made for a test.

Names that repeat, operators' notes, pools of customers, containers, Windows with its small disks, forgotten locks
and snapshots, gaps in the numbers. All of it comes from a seed: the same seed makes the same configs to the byte,
so that a test can name what it met. It is written past the API, ten thousand in about a second.
"""

import random
from dataclasses import dataclass

from zone9.sandbox.state import GIB, Container, Pool, Running, Vm, Volume
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import ConfigFile
from zone9.sandbox.world import QEMU, World

# Configs are dated from here, not from today, so that a seed has one outcome.
EPOCH = 1_735_689_600
YEAR = 365 * 86400
ROLES = ("web", "app", "db", "cache", "queue", "mail", "git", "ci", "vpn", "dns", "mon", "win", "test", "nas")
PLACES = ("", "", "-prod", "-stage", "-dev", ".example.org", ".corp.example")
TAGS = (
    "prod",
    "stage",
    "dev",
    "backup-daily",
    "backup-weekly",
    "pci",
    "team-a",
    "team-b",
    "legacy",
    "monitored",
)
STORES = ("vmstore", "vmstore", "local-lvm")
LOCKS = ("backup", "snapshot", "migrate", "clone", "suspended")
NOTES = (
    "Owner: {who}\nTicket: OPS-{number}\n\nDo not reboot before 18:00.",
    "# {name}\n\n* installed {number} days ago\n* **{who}** knows the password\n",
    "<div align='center'><img src='/pve2/images/logo.png'></div>\n{name} by {who}",
    "zone9: please leave this one alone, {who}",
    "managed-by: terraform\nworkspace: {who}-{number}",
    "Yedek her gece alınır, soru için {who}",
    "{who}",
)
PEOPLE = ("anna", "berk", "chen", "dilek", "eva", "farid", "greta", "hakan")


@dataclass(frozen=True, slots=True)
class Shape:
    """Says how large a cluster is and how it is mixed; shares are of the VMs."""

    vms: int = 10_000
    containers: int = 500
    templates: int = 12
    pools: int = 25
    first: int = 100
    running: float = 0.7
    locked: float = 0.004
    described: float = 0.4
    pooled: float = 0.6


def fill(world: World, shape: Shape, seed: int = 1) -> None:
    """Adds a whole inventory to a cluster; numbers that are taken are passed over."""
    _Filling(world, shape, random.Random(seed)).run()


class _Filling:
    """Makes one inventory; `dice` decides everything."""

    def __init__(self, world: World, shape: Shape, dice: random.Random) -> None:
        self._world, self._shape, self._dice = world, shape, dice
        self._nodes = list(world.cluster.nodes)
        self._vmid = shape.first
        self._templates: list[Vm] = []
        self._pools = [Pool(f"customer-{number:03}", f"customer {number}") for number in range(shape.pools)]

    def run(self) -> None:
        cluster, shape = self._world.cluster, self._shape
        cluster.pools.update({pool.poolid: pool for pool in self._pools})
        self._templates += [self._template(number) for number in range(shape.templates)]
        for number in range(shape.vms):
            self._vm(number)
        for number in range(shape.containers):
            self._container(number)
        cluster.version += 1

    def _number(self) -> int:
        """Goes on to the next free number; one in ten was deleted at some time."""
        cluster = self._world.cluster
        self._vmid += 1 if self._dice.random() < 0.9 else self._dice.randint(2, 20)
        while cluster.taken(self._vmid):
            self._vmid += 1
        return self._vmid

    # ------------------------------------------------------------------ machines

    def _template(self, number: int) -> Vm:
        vmid, node = self._number(), self._nodes[number % len(self._nodes)]
        values = self._common(f"tmpl-debian-{number}", node) | {"template": "1", "tags": "template"}
        values["scsi0"] = self._volume(node, "vmstore", vmid, 0, 4 * GIB, prefix="base")
        values["ide2"] = self._drive(node, "vmstore", vmid)
        return self._put(vmid, node, values)

    def _vm(self, number: int) -> None:
        dice, shape = self._dice, self._shape
        vmid, node = self._number(), dice.choice(self._nodes)
        role = dice.choice(ROLES)
        name = f"{role}{number % 97:02}{dice.choice(PLACES)}"
        values = self._common(name, node)
        store = dice.choice(STORES)
        if role == "win":
            values |= {"ostype": "win11", "bios": "ovmf", "machine": "pc-q35-9.2", "agent": "1"}
            values["efidisk0"] = self._volume(node, store, vmid, 0, 528 * 1024) + ",efitype=4m"
            values["tpmstate0"] = self._volume(node, store, vmid, 1, 4 << 20) + ",version=v2.0"
            values["scsi0"] = self._volume(node, store, vmid, 2, dice.choice((64, 128)) * GIB)
        elif number % 3 == 0 and (template := self._near(node)) is not None:
            values["scsi0"] = self._linked(template, vmid)
            values["ide2"] = self._drive(node, "vmstore", vmid)
            values["ipconfig0"] = f"ip=10.{number >> 8 & 255}.{number & 255}.10/24"
        else:
            values["scsi0"] = self._volume(node, store, vmid, 0, dice.choice((8, 20, 32, 100)) * GIB)
            if role in {"db", "nas"}:
                values["scsi1"] = self._volume(node, store, vmid, 1, dice.choice((200, 500, 1024)) * GIB)
        if dice.random() < 0.5:
            values["tags"] = ";".join(sorted(dice.sample(TAGS, dice.randint(1, 3))))
        if dice.random() < shape.described:
            values["description"] = self._note(name)
        if dice.random() < shape.locked:
            values["lock"] = dice.choice(LOCKS)
        if dice.random() < 0.02:
            del values["name"]  # made by hand and never named
        vm = self._put(vmid, node, values)
        if dice.random() < shape.running and values.get("lock") not in {"clone", "suspended"}:
            self._run(vm)
        if dice.random() < 0.05:
            earlier = {key: value for key, value in vm.config.items() if key != "lock"}
            vm.file.snapshots["before-upgrade"] = earlier | {"snaptime": str(EPOCH + dice.randrange(YEAR))}
            vm.config["parent"] = "before-upgrade"
        self._pool(vmid)

    def _container(self, number: int) -> None:
        dice = self._dice
        vmid, node = self._number(), dice.choice(self._nodes)
        name = f"ct-{dice.choice(ROLES)}{number:03}"
        values = {
            "arch": "amd64",
            "cores": str(dice.choice((1, 2, 4))),
            "features": "nesting=1",
            "hostname": name,
            "memory": str(dice.choice((512, 1024, 2048))),
            "net0": f"name=eth0,bridge=vmbr0,hwaddr={text.new_mac(dice)},ip=dhcp,type=veth",
            "ostype": "debian",
            "rootfs": f"local-lvm:vm-{vmid}-disk-0,size=8G",
            "swap": "512",
            "unprivileged": "1",
        }
        if dice.random() < 0.5:
            values["tags"] = ";".join(sorted(dice.sample(TAGS, dice.randint(1, 2))))
        if dice.random() < self._shape.described:
            values["description"] = self._note(name)
        since = self._since() if dice.random() < self._shape.running else None
        self._world.cluster.containers[vmid] = Container(vmid, node, values, since)
        self._pool(vmid)

    # ------------------------------------------------------------------ parts

    def _common(self, name: str, node: str) -> dict[str, str]:
        dice = self._dice
        nic = f"virtio={text.new_mac(dice)},bridge=vmbr0"
        if dice.random() < 0.6:
            nic += f",firewall=1,tag={dice.randint(10, 400)}"
        return {
            "boot": "order=scsi0",
            "cores": str(dice.choice((1, 2, 2, 4, 4, 8))),
            "memory": str(dice.choice((1024, 2048, 4096, 8192, 16384))),
            "meta": f"creation-qemu={QEMU},ctime={EPOCH + dice.randrange(YEAR)}",
            "name": name,
            "net0": nic,
            "onboot": str(dice.randint(0, 1)),
            "ostype": "l26",
            "scsihw": "virtio-scsi-single",
            "smbios1": f"uuid={text.new_uuid(dice)}",
            "sockets": "1",
            "vmgenid": text.new_uuid(dice),
        }

    def _put(self, vmid: int, node: str, values: dict[str, str]) -> Vm:
        world = self._world
        vm = Vm(vmid, node, ConfigFile(values), world.clock.now() - world.durations.row_lag - 1)
        world.cluster.vms[vmid] = vm
        return vm

    def _run(self, vm: Vm) -> None:
        vm.running = Running(self._since(), self._world.node(vm.node).new_pid())
        vm.starts = 1
        if self._dice.random() < 0.02:
            vm.file.pending["memory"] = "32768"

    def _since(self) -> float:
        return self._world.clock.now() - self._dice.randint(60, YEAR)

    def _pool(self, vmid: int) -> None:
        if self._pools and self._dice.random() < self._shape.pooled:
            self._dice.choice(self._pools).vms.add(vmid)

    def _note(self, name: str) -> str:
        dice = self._dice
        return (
            dice.choice(NOTES)
            .format(name=name, who=dice.choice(PEOPLE), number=dice.randint(1, 9999))
            .rstrip()
        )

    def _near(self, node: str) -> Vm | None:
        there = [template for template in self._templates if template.node == node]
        return self._dice.choice(there) if there else None

    def _volume(
        self,
        node: str,
        store: str,
        vmid: int,
        number: int,
        size: int,
        *,
        prefix: str = "vm",
        parent: str = "",
    ) -> str:
        """Adds a volume and answers its drive line."""
        name = f"{prefix}-{vmid}-disk-{number}"
        volid = f"{store}:{vmid}/{name}.qcow2" if store == "vmstore" else f"{store}:{name}"
        volid = f"{parent}/{vmid}/{name}.qcow2" if parent else volid
        self._store(node, volid, size, vmid, parent or None)
        return f"{volid},size={text.print_size(size)}"

    def _linked(self, template: Vm, vmid: int) -> str:
        base = text.parse_drive(template.config["scsi0"])
        size = text.parse_size(base["size"])
        return self._volume(template.node, "vmstore", vmid, 0, size, parent=base["file"])

    def _drive(self, node: str, store: str, vmid: int) -> str:
        volid = f"{store}:{vmid}/vm-{vmid}-cloudinit.qcow2"
        self._store(node, volid, 4 << 20, vmid)
        return f"{volid},media=cdrom,size=4M"

    def _store(self, node: str, volid: str, size: int, vmid: int, parent: str | None = None) -> None:
        suffix = "qcow2" if volid.endswith(".qcow2") else "raw"
        ctime = EPOCH + self._dice.randrange(YEAR)
        volume = Volume(volid, "images", suffix, size, ctime, vmid, parent)
        self._world.cluster.storages[volid.split(":", 1)[0]].on(node)[volid] = volume
