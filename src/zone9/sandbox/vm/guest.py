"""From a VM's config to what a guest is started from."""

import base64
import binascii
from pathlib import Path

from zone9.sandbox.guests.seam import CloudInit, Disk, GuestSpec, Nic, Smbios
from zone9.sandbox.state import Vm, Volume
from zone9.sandbox.vm import cloudinit
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import IPCONFIG_KEY
from zone9.sandbox.world import World

SMBIOS_TEXT = ("serial", "sku", "manufacturer", "product", "version", "family")


def spec_of(world: World, vm: Vm) -> GuestSpec:
    """Reads the config as it is now, which is the one that QEMU runs with."""
    return GuestSpec(
        vmid=vm.vmid,
        name=vm.name,
        node=vm.node,
        memory=vm.memory // 2**20,
        cores=vm.cpus,
        smbios=_smbios(vm.config.get("smbios1", "")),
        nics=tuple(_nic(key, vm.config[key]) for key in sorted(vm.config) if text.NET_KEY.fullmatch(key)),
        disks=tuple(_disks(world, vm)),
        cloudinit=_cloudinit(vm) if cloudinit.drive_of(vm) else None,
        ignores_acpi=vm.ignores_acpi,
    )


def _smbios(line: str) -> Smbios:
    fields = text.parse_property_string(line)
    plain = {name: fields[name] for name in SMBIOS_TEXT if name in fields}
    if fields.get("base64", "0").lower() in {"1", "on", "yes", "true"}:
        plain = {name: _decoded(value) for name, value in plain.items()}
    return Smbios(uuid=fields.get("uuid", ""), **plain)


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4)).decode("utf-8", "replace")
    except binascii.Error:
        return value


def _nic(key: str, line: str) -> Nic:
    nic = text.parse_nic(line)
    return Nic(
        index=int(key[3:]),
        mac=nic["macaddr"],
        bridge=nic.get("bridge", ""),
        tag=int(nic["tag"]) if "tag" in nic else None,
        model=nic["model"],
        link_down=nic.get("link_down") == "1",
    )


def _disks(world: World, vm: Vm) -> list[Disk]:
    found = []
    for key in sorted(key for key in vm.config if text.is_disk(key)):
        line = vm.config[key]
        if text.is_cloudinit(line) or text.is_cdrom(line):
            continue
        volid = text.parse_drive(line)["file"]
        volume = world.cluster.volume(vm.node, volid)
        if volume is not None:
            path = _file_of(world, vm.node, volume)
            found.append(Disk(slot=key, size=volume.size, path=path, base=volume.parent or ""))
    return found


def _file_of(world: World, node: str, volume: Volume) -> Path | None:
    """Gives a volume its file when a guest first needs it: a layer over its template's, else an empty one."""
    if volume.path is None and world.guests.needs_files:
        parent = world.cluster.volume(node, volume.parent) if volume.parent else None
        base = None if parent is None else _file_of(world, node, parent)
        volume.path = world.files.blank(volume.size) if base is None else world.files.layer(base, volume.size)
    return volume.path


def _cloudinit(vm: Vm) -> CloudInit:
    config = vm.config
    addresses = tuple(
        (int(key.removeprefix("ipconfig")), config[key])
        for key in sorted(config)
        if IPCONFIG_KEY.fullmatch(key)
    )
    return CloudInit(
        ciuser=config.get("ciuser"),
        cipassword=config.get("cipassword"),
        ciupgrade=config.get("ciupgrade", "1") == "1",
        sshkeys=config.get("sshkeys"),
        nameserver=config.get("nameserver"),
        searchdomain=config.get("searchdomain"),
        ipconfig=addresses,
    )
