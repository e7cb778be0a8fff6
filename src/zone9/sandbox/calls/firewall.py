"""A VM's firewall options; rules, sets and aliases are not modelled yet.

They are kept beside the config: no lock line stops a write, and a VM that is not there gets a file all the same
(pve-facts 6.2, firewall 6).
"""

import hashlib
from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.vm.values import split_list

OPTIONS = "/nodes/{node}/qemu/{vmid}/firewall/options"
BOOLEANS = frozenset({"dhcp", "enable", "ipfilter", "macfilter", "ndp", "radv"})


def _digest(options: dict[str, str]) -> str:
    lines = "".join(f"{key}: {options[key]}\n" for key in sorted(options))
    text = f"[OPTIONS]\n\n{lines}\n" if options else ""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@serves("GET", OPTIONS)
async def options(call: Call) -> Any:
    stored = call.world.cluster.firewalls.get(call.vmid, {})
    shown: dict[str, Any] = {key: int(value) if key in BOOLEANS else value for key, value in stored.items()}
    return {**shown, "digest": _digest(stored)}


@serves("PUT", OPTIONS)
async def set_options(call: Call) -> Any:
    stored = call.world.cluster.firewalls.get(call.vmid, {})
    digest = call.params.get("digest")
    if digest and digest != _digest(stored):
        raise PveError("detected modified configuration - file changed by other user? Try again.")
    stored = call.world.cluster.firewalls.setdefault(call.vmid, {})
    for key in split_list(str(call.params.get("delete", ""))):
        stored.pop(key, None)
    for key in call.raw:
        if key not in {"node", "vmid", "delete", "digest"}:
            stored[key] = str(call.params[key])


@serves("GET", "/cluster/firewall/options")
async def cluster_options(call: Call) -> Any:
    return {"digest": _digest({})}
