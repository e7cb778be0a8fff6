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
from zone9.products.servers.adopting import point_at


async def resolve(name: str, spec: Mapping[str, Any], before: Intent | None, look: Look) -> Resolved:
    """Raises Refused with a pointer for whatever is not there or does not fit together."""
    region = await look.find("region", spec["region"], pointer="/spec/region")
    if before is None and (spec["recreate"] is not None or spec["forget"] or spec["loss"] is not None):
        _refuse("/spec", "there is nothing to decide about a server that is not there yet", "by_action_only")
    spec, vm_name = await _linked(region["id"], name, spec, before, look)
    plan, image = await _made_of(region, spec, look)
    disk = 0 if plan is None else int(plan["spec"]["disk_gib"])
    if before is not None and 0 < disk < int(before.resolved.get("disk_gib", 0)):
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
        "cores": None if plan is None else plan["spec"]["cores"],
        "memory_mib": None if plan is None else plan["spec"]["memory_mib"],
        "disk_gib": disk,
        "templates": [] if image is None else [image["spec"]["vmid"]],
        "user": None if image is None else image["spec"]["default_user"],
        "ssh_keys": "\n".join(key["spec"]["public_key"] for key in keys),
        "networks": networks,
        "nameserver": networks[0]["nameserver"] if networks else None,
    }
    if vm_name is not None:
        facts["vm_name"] = vm_name
    needs = [one["id"] for one in (region, plan, image, *keys, *networks) if one is not None]
    return Resolved(facts, tuple(needs), spec)


async def _linked(
    region: str, name: str, spec: Mapping[str, Any], before: Intent | None, look: Look
) -> tuple[Mapping[str, Any], str | None]:
    """Returns the spec with the VM that was pointed at, and the name that it has in Proxmox, kept until another is asked."""
    link = spec["link"]
    if link is None:
        return spec, None
    if before is not None and before.spec.get("link") == link:
        return spec, before.resolved.get("vm_name") if before.name == name else None
    asked, vm_name = await point_at(region, spec, look)
    return asked, vm_name if before is None else None


async def _made_of(
    region: Mapping[str, Any], spec: Mapping[str, Any], look: Look
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    plan = image = None
    if spec["plan"] is not None:
        plan = await look.find("plan", spec["plan"], pointer="/spec/plan")
    if spec["image"] is not None:
        image = await look.find("image", spec["image"], pointer="/spec/image")
        if image["resolved"].get("region") != region["id"]:
            sentence = f"the image {image['name']} is not in the region {region['name']}"
            _refuse("/spec/image", sentence, "other_region")
    return plan, image


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
