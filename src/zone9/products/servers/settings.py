"""From the settings a plan wants to Proxmox's own keys, written onto the lines that were just read."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from zone9.products.servers.truth import ServerTruth
from zone9.pve import propstring
from zone9.pve.vm import with_marker


def to_proxmox(wanted: Mapping[str, Any], truth: ServerTruth) -> dict[str, str | int]:
    """Returns the form of one config write; sub-keys that are not ours stay as they were read."""
    lines: dict[str, str | int] = {}
    config = {**truth.config, **{key: value for key, value in truth.pending.items() if value is not None}}
    for field, value in wanted.items():
        if field == "name":
            lines["name"] = value
        elif field == "cores":
            # The plan's number is the whole of the vCPUs.
            lines["cores"] = value
            if int(config.get("sockets", 1)) != 1:
                lines["sockets"] = 1
        elif field == "memory_mib":
            lines["memory"] = propstring.merge("memory", str(config.get("memory", "")), current=value)
        elif field == "tags":
            lines["tags"] = ";".join(value)
        elif field == "uuid":
            lines["smbios1"] = propstring.merge("smbios1", str(config.get("smbios1", "")), uuid=value)
        elif field == "marker":
            lines["description"] = with_marker(str(config.get("description", "")), value)
        elif field == "ssh_keys":
            # Proxmox stores the keys percent-encoded once more than the form is.
            lines["sshkeys"] = quote(value, safe="")
        elif field == "user":
            lines["ciuser"] = value
        elif field == "nameserver":
            lines["nameserver"] = value
        elif field.startswith("net"):
            lines[field] = _nic(str(config.get(field, "")), value, field)
        elif field.startswith("ipconfig"):
            lines[field] = value
    return lines


def _nic(line: str, nic: Mapping[str, Any], key: str) -> str:
    """Writes a whole card with its MAC address: without one, Proxmox would make up a new one each time."""
    model = propstring.parse(key, line).get("model", "virtio") if line else "virtio"
    if not line:
        line = f"{model}={nic['mac']},bridge={nic['bridge']}"
    return propstring.merge(key, line, macaddr=nic["mac"].upper(), bridge=nic["bridge"], tag=nic["tag"])


def may_take_long(wanted: Mapping[str, Any]) -> bool:
    """Tells changes that a running VM may have to plug: they go by a task, since a PUT past 30 s is cut off."""
    return any(field in {"cores", "memory_mib"} or field.startswith("net") for field in wanted)
