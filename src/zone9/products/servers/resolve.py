"""What the catalogue says about a server at the moment of asking; it becomes part of the version.

Addresses and MAC addresses are taken here, in the intent's own transaction, and kept for the server's life.
"""

import ipaddress
import secrets
from collections.abc import Mapping
from typing import Any

from zone9.base.errors import FieldProblem, Refused
from zone9.model.facts import Intent
from zone9.model.ports import Look, Resolved


async def resolve(_name: str, spec: Mapping[str, Any], before: Intent | None, look: Look) -> Resolved:
    """Raises Refused with a pointer for whatever is not there or does not fit together."""
    region = await look.find("region", spec["region"], pointer="/spec/region")
    plan = await look.find("plan", spec["plan"], pointer="/spec/plan")
    image = await look.find("image", spec["image"], pointer="/spec/image")
    if image["resolved"].get("region") != region["id"]:
        _refuse(
            "/spec/image", f"the image {image['name']} is not in the region {region['name']}", "other_region"
        )
    disk = int(plan["spec"]["disk_gib"])
    if before is not None and disk < int(before.resolved.get("disk_gib", 0)):
        _refuse(
            "/spec/plan", "a disk cannot shrink; choose a plan with a disk at least as large", "disk_shrinks"
        )
    keys = [
        await look.find("ssh-key", ref, pointer=f"/spec/ssh_keys/{number}")
        for number, ref in enumerate(spec["ssh_keys"])
    ]
    known = {one["id"]: one for one in (before.resolved.get("networks", []) if before is not None else [])}
    networks = []
    for number, asked in enumerate(spec["networks"]):
        network = await look.find("network", asked["network"], pointer=f"/spec/networks/{number}/network")
        if network["resolved"].get("region") != region["id"]:
            _refuse(
                f"/spec/networks/{number}/network",
                f"the network {network['name']} is not in the region {region['name']}",
                "other_region",
            )
        networks.append(await _attach(network, asked.get("address"), known.get(network["id"]), number, look))
    facts = {
        "region": region["id"],
        "vmid_first": region["spec"]["vmid_first"],
        "vmid_last": region["spec"]["vmid_last"],
        "cores": plan["spec"]["cores"],
        "memory_mib": plan["spec"]["memory_mib"],
        "disk_gib": disk,
        "templates": [image["spec"]["vmid"]],
        "user": image["spec"]["default_user"],
        "ssh_keys": "\n".join(key["spec"]["public_key"] for key in keys),
        "networks": networks,
        "nameserver": networks[0]["nameserver"] if networks else None,
    }
    needs = [one["id"] for one in (region, plan, image, *keys)] + [one["id"] for one in networks]
    return Resolved(facts, tuple(needs))


async def _attach(
    network: Mapping[str, Any], wanted: str | None, before: Mapping[str, Any] | None, number: int, look: Look
) -> dict[str, Any]:
    address = await look.address(network, wanted=wanted)
    spec = network["spec"]
    line = f"ip={address}/{ipaddress.ip_network(spec['cidr']).prefixlen}"
    if number == 0 and spec.get("gateway"):
        # Exactly one default route, however many networks: the first network's.
        line = f"gw={spec['gateway']},{line}"
    return {
        "id": network["id"],
        "name": network["name"],
        "bridge": spec["bridge"],
        "vlan": spec["vlan"],
        "address": address,
        "mac": before["mac"] if before is not None else new_mac(),
        "ipconfig": line,
        "nameserver": " ".join(spec["nameservers"]) or None,
    }


def new_mac() -> str:
    """Returns a fresh locally administered unicast address, in lower case."""
    first = (secrets.randbits(8) & 0xFC) | 0x02
    return ":".join(f"{byte:02x}" for byte in (first, *secrets.token_bytes(5)))


def _refuse(pointer: str, sentence: str, code: str) -> None:
    raise Refused(sentence, code=code, fields=(FieldProblem(pointer, sentence, code),))
