"""The cloud-init drive of a guest, made as Proxmox makes it.

The texts follow qemu-server's Cloudinit.pm (`cloudinit_userdata`, `nocloud_network`, `nocloud_gen_metadata`)
to the byte, because guests compare the instance id, which is a hash of them. One thing differs on purpose:
where Proxmox falls back to the node's own resolver, a sandbox guest gets none, since it could reach none.
Password hashes and keys are on the drive, so it is readable by its owner only.
"""

import hashlib
import io
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pycdlib import PyCdlib

from zone9.sandbox.guests.seam import CloudInit, GuestSpec, Nic

SIZE = 4 * 1024 * 1024  # Cloudinit.pm: CLOUDINIT_DISK_SIZE
MOST_TEXT = 3 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Texts:
    """Holds the four files of a NoCloud drive."""

    user_data: str
    meta_data: str
    network_config: str
    vendor_data: str = ""


def texts(spec: GuestSpec) -> Texts:
    """Answers what the drive says; raises ValueError when an address of `ipconfigN` is not one."""
    cloudinit = spec.cloudinit or CloudInit()
    user, network = user_data(spec.name or f"VM{spec.vmid}", cloudinit), network_config(spec.nics, cloudinit)
    instance = hashlib.sha1((user + network).encode(), usedforsecurity=False).hexdigest()
    return Texts(user, f"instance-id: {instance}\n", network)


def user_data(name: str, cloudinit: CloudInit) -> str:
    """Answers the user-data of a guest called `name`."""
    host = name.split(".", 1)[0]
    domain = f".{cloudinit.searchdomain}" if cloudinit.searchdomain else ""
    fqdn = name if "." in name else host + domain
    lines = ["#cloud-config", f"hostname: {host}", "manage_etc_hosts: true", f"fqdn: {fqdn}"]
    if cloudinit.ciuser is not None:
        lines.append(f"user: {cloudinit.ciuser}")
        if cloudinit.ciuser == "root":
            lines.append("disable_root: False")
    if cloudinit.cipassword is not None:
        lines.append(f"password: {cloudinit.cipassword}")
    if cloudinit.sshkeys is not None:
        lines.append("ssh_authorized_keys:")
        lines += [f"  - {key}" for key in unquote(cloudinit.sshkeys).split("\n") if key.strip()]
    lines += ["chpasswd:", "  expire: False"]
    if cloudinit.ciuser != "root":
        lines += ["users:", "  - default"]
    if cloudinit.ciupgrade:
        lines.append("package_upgrade: true")
    return "\n".join(lines) + "\n"


def network_config(nics: tuple[Nic, ...], cloudinit: CloudInit) -> str:
    """Answers the network-config, version 1; a NIC without its `ipconfigN` is left out, as Proxmox does."""
    ipconfig = dict(cloudinit.ipconfig)
    lines = ["version: 1", "config:"]
    for nic in sorted(nics, key=lambda nic: f"net{nic.index}"):
        if not ipconfig.get(nic.index):
            continue
        lines += [
            "    - type: physical",
            f"      name: eth{nic.index}",
            f"      mac_address: '{nic.mac.lower()}'",
            "      subnets:",
        ]
        lines += [f"      {line}" for line in _subnets(ipconfig[nic.index])]
    if cloudinit.nameserver or cloudinit.searchdomain:
        lines.append("    - type: nameserver")
    if cloudinit.nameserver:
        lines += ["      address:", *(f"      - '{server}'" for server in cloudinit.nameserver.split())]
    if cloudinit.searchdomain:
        lines += ["      search:", *(f"      - '{domain}'" for domain in cloudinit.searchdomain.split())]
    return "\n".join(lines) + "\n"


def _subnets(text: str) -> list[str]:
    """Reads one `ipconfigN`; an empty one means DHCP in both families (Network.pm: `parse_ipconfig`)."""
    fields = dict(part.partition("=")[::2] for part in text.strip().split(",") if part)
    four, six = fields.get("ip"), fields.get("ip6")
    if not four and not six:
        four = six = "dhcp"
    lines: list[str] = []
    if four == "dhcp":
        lines.append("- type: dhcp4")
    elif four and four != "manual":
        address = ipaddress.IPv4Interface(four)
        lines += ["- type: static", f"  address: '{address.ip}'", f"  netmask: '{address.netmask}'"]
        if "gw" in fields:
            lines.append(f"  gateway: '{fields['gw']}'")
    if six == "dhcp":
        lines.append("- type: dhcp6")
    elif six == "auto":
        lines.append("- type: ipv6_slaac")
    elif six and six != "manual":
        lines += ["- type: static6", f"  address: '{six}'"]
        if "gw6" in fields:
            lines.append(f"  gateway: '{fields['gw6']}'")
    return lines


def first_address(spec: GuestSpec) -> tuple[Nic, ipaddress.IPv4Address] | None:
    """Answers the guest's first static IPv4 address and its NIC, in the order in which the guest meets them."""
    ipconfig = dict(spec.cloudinit.ipconfig) if spec.cloudinit else {}
    for nic in sorted(spec.nics, key=lambda nic: f"net{nic.index}"):
        fields = dict(part.partition("=")[::2] for part in ipconfig.get(nic.index, "").split(",") if part)
        if "/" in fields.get("ip", ""):
            return nic, ipaddress.IPv4Interface(fields["ip"]).ip
    return None


def write(path: Path, files: Texts) -> None:
    """Writes the drive: ISO 9660 with Rock Ridge and Joliet, called `cidata`, 4 MiB, mode 0600.

    Raises ValueError when the texts are larger than Proxmox allows.
    """
    contents = {
        "user-data": files.user_data.encode(),
        "meta-data": files.meta_data.encode(),
        "network-config": files.network_config.encode(),
        "vendor-data": files.vendor_data.encode(),
    }
    if sum(map(len, contents.values())) > MOST_TEXT:
        raise ValueError("Cloud-Init sum of snippets too big (> 3 MiB)")
    iso = PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident="cidata")
    try:
        for name, content in contents.items():
            plain = name.replace("-", "_").upper()
            iso.add_fp(
                io.BytesIO(content), len(content), f"/{plain}.;1", rr_name=name, joliet_path=f"/{name}"
            )
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as file:  # noqa: PTH123
            iso.write_fp(file)
            file.truncate(SIZE)
    finally:
        iso.close()
