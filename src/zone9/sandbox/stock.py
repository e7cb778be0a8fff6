"""Furnishing: VMs and templates that were there before anybody asked."""

from typing import Any

from zone9.sandbox.state import Running, Vm
from zone9.sandbox.vm import disks, rows
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import ConfigFile
from zone9.sandbox.world import QEMU, World


class Stock:
    """Puts VMs into the cluster without a request, as if somebody had made them by hand."""

    def __init__(self, world: World) -> None:
        self._world = world

    def add_template(
        self,
        vmid: int,
        node: str,
        *,
        name: str = "",
        disk: str = "2G",
        storage: str = "vmstore",
        cloudinit: bool = True,
        file_format: str = "qcow2",
        **config: Any,
    ) -> Vm:
        """Adds a template with one disk on scsi0 and, unless told otherwise, a cloud-init drive on ide2."""
        vm = self.add_vm(
            vmid,
            node,
            name=name or f"template-{vmid}",
            disk=disk,
            storage=storage,
            cloudinit=cloudinit,
            file_format=file_format,
            prefix="base",
            **{
                "scsihw": "virtio-scsi-single",
                "serial0": "socket",
                "vga": "serial0",
                "ostype": "l26",
                **config,
            },
        )
        vm.file.put("template", "1")
        if vmid in self._world.told:
            self._world.told[vmid] = rows.numbers(self._world, vm)
        return vm

    def add_vm(
        self,
        vmid: int,
        node: str,
        *,
        name: str = "",
        disk: str | None = None,
        storage: str = "vmstore",
        cloudinit: bool = False,
        file_format: str = "qcow2",
        prefix: str = "vm",
        running: bool = False,
        bare: bool = False,
        used: int | None = None,
        **config: Any,
    ) -> Vm:
        """Adds a VM. Keyword arguments are config keys (`_` for `-`); `bare` leaves out all that is filled in."""
        world = self._world
        values = {key.replace("_", "-"): str(value) for key, value in config.items()}
        if not bare:
            values.setdefault("cores", "1")
            values.setdefault("memory", "512")
            values.setdefault("net0", f"virtio={text.new_mac(world.random)},bridge=vmbr0")
            values.setdefault("smbios1", f"uuid={text.new_uuid(world.random)}")
            values.setdefault("vmgenid", text.new_uuid(world.random))
            values.setdefault("meta", f"creation-qemu={QEMU},ctime={world.now(node)}")
        if name:
            values["name"] = name
        store = world.storage(storage)
        suffix = file_format if store.kind == "dir" else "raw"
        if disk is not None:
            size = text.parse_size(disk)
            volid = disks.volume_id(store, vmid, disks.free_name(world, node, store, vmid, prefix), suffix)
            volume = disks.add_volume(world, node, store, vmid, volid, suffix, size)
            volume.used = volume.used if used is None else used
            values["scsi0"] = f"{volid},size={text.print_size(size)}"
            values.setdefault("boot", "order=scsi0")
        if cloudinit:
            suffix = "qcow2" if store.kind == "dir" else "raw"
            volid = disks.volume_id(store, vmid, f"vm-{vmid}-cloudinit", suffix)
            disks.add_volume(world, node, store, vmid, volid, suffix, disks.CLOUDINIT_SIZE)
            values["ide2"] = f"{volid},media=cdrom,size=4M"
        file = ConfigFile()
        for key, value in values.items():
            file.put(key, value)
        vm = Vm(vmid, node, file, world.clock.now() - world.durations.row_lag - 1)
        if running:
            vm.running = Running(world.clock.now(), world.node(node).new_pid())
        world.cluster.vms[vmid] = vm
        if world.durations.list_lag:
            world.told[vmid] = rows.numbers(world, vm)
        world.cluster.version += 1
        return vm
