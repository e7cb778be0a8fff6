"""What is under /cluster/sdn and /nodes/{node}/sdn: lists, changes that wait for an apply, and the refusals.

The node has no ifupdown2, so an apply ends well and reloads nothing (recorded, pve-facts 6.2, sdn).
"""

import ipaddress
from typing import Any

from zone9.sandbox.answers import BAD_PARAMETERS, PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.sdn import Sdn
from zone9.sandbox.tasks import Task

SDN = "/cluster/sdn"
NODE_SDN = "/nodes/{node}/sdn"
NO_FILE = "da39a3ee5e6b4b0d3255bfef95601890afd80709"  # sha1 of nothing
NO_STATUS = (
    'malformed JSON string, neither tag, array, object, number, string or atom, at character offset 0 (before "(end of '
    'string)") at /usr/share/perl5/PVE/Network/SDN/Zones.pm line 200.'
)
IN_USE = "zone {zone} is used by vnet {vnet} at /usr/share/perl5/PVE/Network/SDN/Zones/Plugin.pm line 149."


def _sdn(call: Call) -> Sdn:
    return call.world.cluster.sdn


def _failed(verb: str, kind: str, why: str) -> PveError:
    return PveError(f"{verb} sdn {kind} object failed: {why}")


def _invalid(verb: str, kind: str, **errors: str) -> PveError:
    """Is a refusal of parameters under another error: its fields are text, not `errors` (recorded)."""
    lines = "".join(f"\n{key}: {why}" for key, why in errors.items())
    return _failed(verb, kind, f"400 {BAD_PARAMETERS}{lines}")


def _given(call: Call, *ids: str) -> dict[str, Any]:
    left_out = {"node", "delete", "digest", "lock-token", *ids}
    return {key: value for key, value in call.params.items() if key not in left_out}


def _must_allocate(call: Call, zone: str, vnet: str) -> None:
    call.must(f"/sdn/zones/{zone}/{vnet}", "SDN.Allocate")


def _written(call: Call, kind: str, absent: str) -> dict[str, Any]:
    """Answers the object that a path names; `absent` is what is said where there is none."""
    name = str(call.params[kind])
    found = _sdn(call).written[kind].get(name)
    if found is None:
        raise PveError(absent.format(name))
    return found


def _vnet(call: Call) -> dict[str, Any]:
    return _written(call, "vnet", "sdn vnet '{}' does not exist")


def _zone(call: Call) -> dict[str, Any]:
    return _written(call, "zone", "sdn '{}' does not exist")


def _listed(call: Call, kind: str) -> list[dict[str, Any]]:
    return _sdn(call).listed(kind, pending=call.flag("pending"), running=call.flag("running"))


@serves("GET", SDN)
async def index(call: Call) -> Any:
    return [{"id": name} for name in ("vnets", "zones", "controllers", "ipams", "dns", "fabrics")]


@serves("GET", f"{SDN}/controllers")
@serves("GET", f"{SDN}/dns")
async def nothing(call: Call) -> Any:
    """There are none, and none can be made here."""
    return []


@serves("GET", f"{SDN}/fabrics")
async def fabrics(call: Call) -> Any:
    return [{"subdir": name} for name in ("fabric", "node", "all")]


@serves("GET", f"{SDN}/ipams")
async def ipams(call: Call) -> Any:
    return [{"ipam": "pve", "type": "pve", "digest": NO_FILE}]


@serves("GET", f"{SDN}/ipams/{{ipam}}/status")
async def ipam_status(call: Call) -> Any:
    return []


@serves("GET", f"{SDN}/zones")
async def zones(call: Call) -> Any:
    rights = ("SDN.Audit", "SDN.Allocate")
    rows = _listed(call, "zone")
    return [row for row in rows if any(call.may(f"/sdn/zones/{row['zone']}", right) for right in rights)]


@serves("GET", f"{SDN}/zones/{{zone}}")
async def zone(call: Call) -> Any:
    _zone(call)
    return next(row for row in _sdn(call).listed("zone") if row["zone"] == call.params["zone"])


@serves("POST", f"{SDN}/zones")
async def add_zone(call: Call) -> Any:
    name = str(call.params["zone"])
    if name in _sdn(call).written["zone"]:
        raise _failed("create", "zone", f"sdn zone object ID '{name}' already defined")
    _sdn(call).written["zone"][name] = _given(call, "zone")


@serves("PUT", f"{SDN}/zones/{{zone}}")
async def change_zone(call: Call) -> Any:
    _zone(call).update(_given(call, "zone"))


@serves("DELETE", f"{SDN}/zones/{{zone}}")
async def drop_zone(call: Call) -> Any:
    name = str(call.params["zone"])
    _zone(call)
    for vnet, values in sorted(_sdn(call).written["vnet"].items()):
        if values["zone"] == name:
            raise _failed("delete", "zone", IN_USE.format(zone=name, vnet=vnet))
    del _sdn(call).written["zone"][name]


@serves("GET", f"{SDN}/vnets")
async def vnets(call: Call) -> Any:
    return [row for row in _listed(call, "vnet") if _sees(call, row)]


def _sees(call: Call, row: dict[str, Any]) -> bool:
    zone_ = row.get("zone") or row.get("pending", {}).get("zone")
    return any(
        call.may(f"/sdn/zones/{zone_}/{row['vnet']}", right) for right in ("SDN.Audit", "SDN.Allocate")
    )


@serves("GET", f"{SDN}/vnets/{{vnet}}")
async def vnet(call: Call) -> Any:
    found = _vnet(call)
    path = f"/sdn/zones/{found['zone']}/{call.params['vnet']}"
    call.must(path, "SDN.Audit", "SDN.Allocate", any_of=True)
    return next(row for row in _sdn(call).listed("vnet") if row["vnet"] == call.params["vnet"])


@serves("POST", f"{SDN}/vnets")
async def add_vnet(call: Call) -> Any:
    name = str(call.params["vnet"])
    written = _sdn(call).written
    if name in written["vnet"]:
        raise _failed("create", "vnet", f"sdn vnet object ID '{name}' already defined")
    zone_ = written["zone"].get(str(call.params["zone"]))
    if zone_ is None:
        raise _failed("create", "vnet", f"sdn '{call.params['zone']}' does not exist")
    if "tag" in call.params and zone_["type"] == "simple":
        raise _invalid("create", "vnet", tag="vlan tag is not allowed on simple zone")
    written["vnet"][name] = {"type": "vnet", **_given(call, "vnet")}


@serves("DELETE", f"{SDN}/vnets/{{vnet}}")
async def drop_vnet(call: Call) -> Any:
    name = str(call.params["vnet"])
    _must_allocate(call, _vnet(call)["zone"], name)
    if any(one["vnet"] == name for one in _sdn(call).written["subnet"].values()):
        raise _invalid("delete", "vnet", vnet="Can't delete vnet if subnets exists")
    del _sdn(call).written["vnet"][name]


@serves("GET", f"{SDN}/vnets/{{vnet}}/subnets")
async def subnets(call: Call) -> Any:
    _vnet(call)
    return [row for row in _listed(call, "subnet") if row.get("vnet") == call.params["vnet"]]


@serves("POST", f"{SDN}/vnets/{{vnet}}/subnets")
async def add_subnet(call: Call) -> Any:
    name = str(call.params["vnet"])
    zone_ = _vnet(call)["zone"]
    _must_allocate(call, zone_, name)
    network = ipaddress.ip_network(str(call.params["subnet"]), strict=False)
    id_ = f"{zone_}-{network.network_address}-{network.prefixlen}"
    if id_ in _sdn(call).written["subnet"]:
        raise _failed("create", "subnet", f"sdn subnet object ID '{id_}' already defined")
    _sdn(call).written["subnet"][id_] = {**_given(call, "subnet"), "vnet": name}


@serves("DELETE", f"{SDN}/vnets/{{vnet}}/subnets/{{subnet}}")
async def drop_subnet(call: Call) -> Any:
    name = str(call.params["subnet"])
    _must_allocate(call, _vnet(call)["zone"], str(call.params["vnet"]))
    if _sdn(call).written["subnet"].pop(name, None) is None:
        raise PveError(f"sdn subnet '{name}' does not exist")


@serves("PUT", SDN)
async def apply(call: Call) -> Any:
    _sdn(call).apply()

    async def worker(task: Task) -> None:
        for node in call.world.cluster.nodes.values():
            if node.online:
                await call.world.clock.sleep(call.world.durations.start_checks)
                task.log(f"{node.name}: reloading network config")
                task.log("you need ifupdown2 to reload network configuration")
                command = f"pvesh set /nodes/{node.name}/network --regenerate-frr 0"
                task.log(f"command '{command}' failed: exit code 2")

    call.params.setdefault("node", call.serving)
    return call.fork("reloadnetworkall", "", worker)


@serves("GET", NODE_SDN)
async def node_index(call: Call) -> Any:
    return [{"name": name} for name in ("fabrics", "vnets", "zones")]


@serves("GET", f"{NODE_SDN}/zones")
async def node_zones(call: Call) -> Any:
    if any((_sdn(call).running or {}).values()):
        raise PveError(NO_STATUS)
    return []


@serves("GET", f"{NODE_SDN}/zones/{{zone}}/bridges")
async def zone_bridges(call: Call) -> Any:
    names = call.world.node(call.node).bridges if call.params["zone"] == "localnetwork" else ()
    return [{"name": name, "ports": [], "vlan_filtering": 0} for name in names]
