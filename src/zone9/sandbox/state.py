"""The cluster's state: nodes, VMs, storages, pools, options. Data only; whoever changes it knows the rules."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zone9.sandbox.firewall import Firewall
from zone9.sandbox.sdn import Sdn
from zone9.sandbox.vm.config import ConfigFile
from zone9.sandbox.vm.values import parse_size

GIB = 1 << 30


@dataclass(slots=True)
class Node:
    """Is one member of the cluster; `skew` is how many seconds its clock is ahead."""

    name: str
    nodeid: int
    address: str
    cpus: int = 32
    memory: int = 128 * GIB
    online: bool = True
    skew: float = 0.0
    booted_at: float = 0.0
    bridges: dict[str, str] = field(default_factory=lambda: {"vmbr0": "10.99.0.1/24"})
    next_pid: int = 1000

    def new_pid(self) -> int:
        self.next_pid += 3
        return self.next_pid


@dataclass(frozen=True, slots=True)
class Archive:
    """Is what a backup holds: a config, and the sizes of its disks in bytes, by key."""

    values: dict[str, str]
    disks: dict[str, int]
    protected: bool = False
    notes: str = ""


@dataclass(slots=True)
class Volume:
    """Is one volume; `path` is a real file where guests are real."""

    volid: str
    content: str
    format: str
    size: int
    ctime: int
    vmid: int | None = None
    parent: str | None = None
    used: int = 270336
    path: Path | None = None
    # What lists show for an import, whose `size` is that of the disk inside.
    file_size: int | None = None
    archive: Archive | None = None


@dataclass(slots=True)
class Storage:
    """Is a storage definition and, by node, its volumes (under "" where it is shared)."""

    name: str
    kind: str = "dir"
    content: tuple[str, ...] = ("images", "iso", "import", "vztmpl", "backup", "snippets")
    shared: bool = False
    nodes: tuple[str, ...] = ()
    total: int = 256 * GIB
    path: str = ""
    volumes: dict[str, dict[str, Volume]] = field(default_factory=dict)

    def on(self, node: str) -> dict[str, Volume]:
        return self.volumes.setdefault("" if self.shared else node, {})

    def available_on(self, node: str) -> bool:
        return not self.nodes or node in self.nodes

    def used(self, node: str) -> int:
        return sum(volume.used for volume in self.on(node).values())


@dataclass(slots=True)
class Running:
    """Is a VM's QEMU process: since when, and the values it was started with."""

    since: float
    pid: int
    paused: bool = False
    generation: int = 0


@dataclass(slots=True)
class Vm:
    """Is one VM: its config file, whether it runs, and what the lists may know of it yet."""

    vmid: int
    node: str
    file: ConfigFile
    created_at: float
    running: Running | None = None
    hastate: str | None = None
    ignores_acpi: bool = False
    agent_running: bool = False
    # Its guest is booting and lets no device go.
    busy: bool = False
    start_error: str | None = None
    starts: int = 0

    @property
    def config(self) -> dict[str, str]:
        return self.file.values

    @property
    def name(self) -> str:
        return self.config.get("name") or f"VM {self.vmid}"

    @property
    def lock(self) -> str | None:
        return self.config.get("lock")

    @property
    def is_template(self) -> bool:
        return self.config.get("template") == "1"

    @property
    def memory(self) -> int:
        """Is the memory in bytes; Proxmox's default is 512 MiB."""
        text = self.config.get("memory", "512").split(",")[0].removeprefix("current=")
        return int(text) * 2**20

    @property
    def cpus(self) -> int:
        total = int(self.config.get("sockets", "1")) * int(self.config.get("cores", "1"))
        return int(self.config.get("vcpus", "0")) or total

    @property
    def maxdisk(self) -> int:
        """Is the size of the boot disk, 0 when there is none (qemu-server, vmstatus)."""
        order = self.config.get("boot", "").removeprefix("order=").split(";")
        # An order without a disk in it is no boot disk (recorded); no order at all is the first one.
        keys = order if self.config.get("boot", "").startswith("order=") else sorted(self.config)
        for key in keys:
            line = self.config.get(key, "")
            if key[:4] in {"scsi", "virt", "sata", "ide0", "ide1", "ide2", "ide3"} and ",size=" in line:
                if "media=cdrom" in line or key == "scsihw":
                    continue
                return parse_size(line.split("size=", 1)[1].split(",")[0])
        return 0


@dataclass(slots=True)
class Container:
    """Is an LXC container, of which only its being there is modelled; `since` is None while it is stopped."""

    vmid: int
    node: str
    values: dict[str, str]
    since: float | None = None


@dataclass(slots=True)
class Pool:
    poolid: str
    comment: str = ""
    vms: set[int] = field(default_factory=set)
    storages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Cluster:
    """Is everything that pmxcfs and the storages hold."""

    name: str = "sandbox"
    nodes: dict[str, Node] = field(default_factory=dict)
    vms: dict[int, Vm] = field(default_factory=dict)
    containers: dict[int, Container] = field(default_factory=dict)
    storages: dict[str, Storage] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    ha: dict[str, dict[str, str]] = field(default_factory=dict)
    backup_jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    sdn: Sdn = field(default_factory=Sdn)
    # By VMID, by node name, and under "" the cluster's own.
    firewalls: dict[int | str, Firewall] = field(default_factory=dict)
    quorate: bool = True
    # Counts what permissions may depend on, so that they can be remembered.
    version: int = 0

    def taken(self, vmid: int) -> bool:
        """Tells whether a number is in use: VMs and containers share them."""
        return vmid in self.vms or vmid in self.containers

    def pool_of(self, vmid: int) -> str | None:
        return next((pool.poolid for pool in self.pools.values() if vmid in pool.vms), None)

    def volumes(self) -> Iterator[tuple[Storage, str, Volume]]:
        for storage in self.storages.values():
            for node, volumes in storage.volumes.items():
                for volume in volumes.values():
                    yield storage, node, volume

    def volume(self, node: str, volid: str) -> Volume | None:
        storage = self.storages.get(volid.split(":", 1)[0])
        return storage.on(node).get(volid) if storage else None
