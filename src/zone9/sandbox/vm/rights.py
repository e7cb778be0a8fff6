"""Who may change which key of a config (qemu-server API2/Qemu.pm, check_vm_modify_config_perm).

A key that no group names is root's alone, and that refusal is a 500, not a 403 (pve-facts 6.6).
"""

from collections.abc import Iterable

from zone9.sandbox.answers import PveError, denied
from zone9.sandbox.call import Call
from zone9.sandbox.vm.config import CLOUDINIT_KEYS, IPCONFIG_KEY
from zone9.sandbox.vm.values import NET_KEY, UNUSED_KEY, is_disk, parse_nic, parse_property_string, split_list

GROUPS = {
    "VM.Config.CPU": {"cores", "cpu", "cpulimit", "cpuunits", "numa", "smp", "sockets", "vcpus"},
    "VM.Config.Memory": {"memory", "balloon", "shares"},
    "VM.Config.HWType": {
        *(
            "acpi",
            "hotplug",
            "kvm",
            "machine",
            "scsihw",
            "smbios1",
            "tablet",
            "vga",
            "watchdog",
            "audio0",
            "rng0",
        ),
        *("allow-ksm", "intel-tdx"),
    },
    "VM.Config.Options": {
        *(
            "agent",
            "autostart",
            "bios",
            "description",
            "keyboard",
            "localtime",
            "migrate_downtime",
            "migrate_speed",
        ),
        *("name", "onboot", "ostype", "protection", "reboot", "startdate", "startup", "tdf", "template"),
    },
    "VM.PowerMgmt": {"freeze"},
    "VM.Config.Disk": {"boot", "bootdisk", "vmstatestorage"},
}
BY_KEY = {key: privilege for privilege, keys in GROUPS.items() for key in keys}


def may_change(call: Call, path: str, keys: Iterable[str]) -> None:
    """Refuses the first key that the user may not change."""
    if call.is_root:
        return
    for key in keys:
        if is_disk(key) or UNUSED_KEY.fullmatch(key) or key in {"tags", "vmstate"}:
            continue
        if key.startswith(("serial", "usb")) and key[-1].isdigit():
            continue
        if key.startswith("numa") and key[4:].isdigit():
            call.must(path, "VM.Config.CPU")
        elif NET_KEY.fullmatch(key):
            call.must(path, "VM.Config.Network")
        elif key in CLOUDINIT_KEYS or IPCONFIG_KEY.fullmatch(key):
            call.must(path, "VM.Config.Cloudinit", "VM.Config.Network", any_of=True)
        elif privilege := BY_KEY.get(key):
            if key == "startup":
                call.must("/", "Sys.Modify")
            call.must(path, privilege)
        else:
            raise PveError(f"only root can set '{key}' config")


def may_use_disks(call: Call, path: str, lines: dict[str, str]) -> None:
    """Refuses a drive on a storage that the user may not allocate on."""
    for key, line in lines.items():
        if not is_disk(key):
            continue
        drive = parse_property_string(line, "file")
        file = drive.get("file") or drive.get("volume", "")
        if file in {"none", "cdrom"} or ":" not in file:
            continue
        if drive.get("media") == "cdrom" and not file.endswith(":cloudinit"):
            call.must(path, "VM.Config.CDROM")
        else:
            call.must(path, "VM.Config.Disk")
        storage, _, rest = file.partition(":")
        if rest and (rest[0].isdigit() or rest == "cloudinit"):
            call.must(f"/storage/{storage}", "Datastore.AllocateSpace")


def may_use_bridges(call: Call, lines: dict[str, str]) -> None:
    """Refuses a NIC on a bridge that the user may not use."""
    for key, line in lines.items():
        if NET_KEY.fullmatch(key) and (bridge := parse_nic(line).get("bridge")):
            call.must(f"/sdn/zones/localnetwork/{bridge}", "SDN.Use")


def may_tag(call: Call, old: str, new: str) -> None:
    """Refuses to add or drop a tag that the datacenter options keep for others (pve-facts 6.6)."""
    options = call.world.cluster.options
    if call.may("/", "Sys.Modify"):
        return
    registered = set(split_list(options.get("registered-tags", "")))
    access = parse_property_string(options.get("user-tag-access", ""))
    mode = access.get("user-allow", "free")
    allowed = set(split_list(access.get("user-allow-list", "")))
    # As they stand, in whatever case: the recorded refusal names 'Alpha' where tags are folded.
    for tag in sorted(set(split_list(old)) ^ set(split_list(new))):
        free = (
            mode == "free"
            or (mode == "list" and tag in allowed)
            or (mode == "existing" and _exists(call, tag))
        )
        if tag in registered or not free:
            raise denied(f"/, Sys.Modify for modifying tag '{tag}'")


def _exists(call: Call, tag: str) -> bool:
    return any(tag in split_list(vm.config.get("tags", "")) for vm in call.world.cluster.vms.values())
