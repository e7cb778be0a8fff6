"""The cloud-init drive: what it has, what it would have, and the documents it is made of.

The [special:cloudinit] section remembers what the drive still has when a key is changed, and what was added
since; it goes when the drive is made anew (qemu-server, cloudinit; pve-facts 6.19, 6.2 nics 5).
"""

import hashlib
import ipaddress
from typing import Any
from urllib.parse import unquote

from zone9.sandbox.state import Vm
from zone9.sandbox.vm.config import CLOUDINIT_KEYS, IPCONFIG_KEY, MASK, typed
from zone9.sandbox.vm.values import NET_KEY, is_cloudinit, parse_nic, parse_property_string, split_list


def concerns(key: str) -> bool:
    """Tells whether a key ends up on the drive."""
    return (
        key in CLOUDINIT_KEYS or key == "name" or bool(IPCONFIG_KEY.fullmatch(key) or NET_KEY.fullmatch(key))
    )


def drive_of(vm: Vm) -> str | None:
    """Answers the key of the cloud-init drive."""
    for key, line in vm.config.items():
        if key[:3] in {"ide", "sat", "scs"} and key != "scsihw" and is_cloudinit(line):
            return key
    return None


def remember(vm: Vm, key: str, old: str | None, new: str | None) -> None:
    """Notes that the drive no longer has what the config says."""
    if not concerns(key) or drive_of(vm) is None or old == new:
        return
    section = vm.file.cloudinit
    added = set(split_list(section.pop("added", "")))
    if key in section:
        if new == section[key]:
            del section[key]
    elif key in added:
        if new is None:
            added.discard(key)
    elif old is None:
        added.add(key)
    else:
        section[key] = old
    if added:
        section["added"] = ",".join(sorted(added))
    vm.file.touch()


def regenerated(vm: Vm) -> None:
    """Notes that the drive was made anew."""
    if vm.file.cloudinit:
        vm.file.cloudinit.clear()
        vm.file.touch()


def rows(vm: Vm) -> list[dict[str, Any]]:
    """Is GET cloudinit."""
    section = vm.file.cloudinit
    added = split_list(section.get("added", ""))
    config = vm.config

    def shown(key: str, value: str) -> Any:
        return MASK if key == "cipassword" else typed(key, value)

    found = [{"key": key, "pending": shown(key, config[key])} for key in added if key in config]
    for key in sorted(CLOUDINIT_KEYS):
        if key not in config or key in added:
            continue
        if key in section:
            found.append({"key": key, "value": shown(key, section[key]), "pending": shown(key, config[key])})
        else:
            found.append({"key": key, "value": shown(key, config[key])})
    found += [{"key": key, "delete": 1} for key in section if key != "added" and key not in config]
    return found


def dump(vm: Vm, kind: str) -> str:
    """Is GET cloudinit/dump in the recorded format."""
    if kind == "user":
        return _user(vm)
    if kind == "network":
        return _network(vm)
    seed = _user(vm) + _network(vm)
    return f"instance-id: {hashlib.sha1(seed.encode(), usedforsecurity=False).hexdigest()}\n"


def _user(vm: Vm) -> str:
    config = vm.config
    name = config.get("name") or f"VM{vm.vmid}"
    host = name.split(".", 1)[0]
    text = f"#cloud-config\nhostname: {host}\nmanage_etc_hosts: true\n"
    domain = config.get("searchdomain", "").split(" ")[0]
    if "." in name:
        text += f"fqdn: {name}\n"
    elif domain:
        text += f"fqdn: {host}.{domain}\n"
    if user := config.get("ciuser"):
        text += f"user: {user}\n"
    if password := config.get("cipassword"):
        text += f"password: {password}\n"
    keys = [line for line in unquote(config.get("sshkeys", "")).split("\n") if line.strip()]
    if keys:
        text += "ssh_authorized_keys:\n" + "".join(f"  - {key}\n" for key in keys)
    text += "chpasswd:\n  expire: False\n"
    if config.get("ciuser") != "root":
        text += "users:\n  - default\n"
    if config.get("ciupgrade", "1") == "1":
        text += "package_upgrade: true\n"
    return text


def _network(vm: Vm) -> str:
    config = vm.config
    text = "version: 1\nconfig:\n"
    for index in range(32):
        if f"net{index}" not in config:
            continue
        mac = parse_nic(config[f"net{index}"])["macaddr"].lower()
        text += f"    - type: physical\n      name: eth{index}\n      mac_address: '{mac}'\n      subnets:\n"
        text += _subnets(
            parse_property_string(config.get(f"ipconfig{index}", "").strip()), f"ipconfig{index}" in config
        )
    name_servers = split_list(config.get("nameserver", ""))
    domains = split_list(config.get("searchdomain", ""))
    if name_servers or domains:
        text += "    - type: nameserver\n"
        if name_servers:
            text += "      address:\n" + "".join(f"      - '{server}'\n" for server in name_servers)
        if domains:
            text += "      search:\n" + "".join(f"      - '{domain}'\n" for domain in domains)
    return text


def _subnets(ipconfig: dict[str, str], configured: bool) -> str:
    text = ""
    four, six = ipconfig.get("ip"), ipconfig.get("ip6")
    if four is None and six is None:
        four = six = "dhcp" if configured else None
    if four == "dhcp":
        text += "      - type: dhcp4\n"
    elif four and four != "manual":
        address = ipaddress.ip_interface(four)
        text += (
            f"      - type: static\n        address: '{address.ip}'\n        netmask: '{address.netmask}'\n"
        )
        if "gw" in ipconfig:
            text += f"        gateway: '{ipconfig['gw']}'\n"
    if six == "dhcp":
        text += "      - type: dhcp6\n"
    elif six == "auto":
        text += "      - type: ipv6_slaac\n"
    elif six and six != "manual":
        text += f"      - type: static6\n        address: '{six}'\n"
        if "gw6" in ipconfig:
            text += f"        gateway: '{ipconfig['gw6']}'\n"
    return text
