"""What a firewall's rules may name: sets of addresses, aliases, and the list of both (pve-facts 6.2, firewall 4)."""

from typing import Any

from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.call import Call
from zone9.sandbox.calls.firewall import CLUSTER, VM, above, below, file_of
from zone9.sandbox.firewall import Ipset, digest_of, masked
from zone9.sandbox.firewall_formats import is_network


def _ipset(call: Call) -> Ipset:
    name = str(call.params["name"])
    found = file_of(call).ipsets.get(name)
    if found is None:
        raise PveError(f"no such IPSet '{name}'")
    return found


@below("/ipset", "GET", VM, CLUSTER)
async def ipsets(call: Call) -> Any:
    file = file_of(call)
    rows = [
        {"name": name, **({"comment": one.comment} if one.comment else {})}
        for name, one in sorted(file.ipsets.items())
    ]
    return [{**row, "digest": digest_of(rows)} for row in rows]


@below("/ipset", "POST", VM, CLUSTER)
async def add_ipset(call: Call) -> Any:
    file, name = file_of(call), str(call.params["name"])
    if old := call.params.get("rename"):
        if old not in file.ipsets:
            raise refused(name=f"IPSet '{old}' does not exist")
        file.ipsets[name] = file.ipsets.pop(str(old))
    elif name in file.ipsets:
        raise refused(name=f"IPSet '{name}' already exists")
    made = file.ipsets.setdefault(name, Ipset())
    if "comment" in call.params:
        made.comment = str(call.params["comment"])


@below("/ipset/{name}", "GET", VM, CLUSTER)
async def ipset(call: Call) -> Any:
    rows = [entry for _, entry in sorted(_ipset(call).entries.items())]
    return [{**row, "digest": digest_of(rows)} for row in rows]


@below("/ipset/{name}", "DELETE", VM, CLUSTER)
async def drop_ipset(call: Call) -> Any:
    if _ipset(call).entries and not call.flag("force"):
        raise PveError(f"IPSet '{call.params['name']}' is not empty")
    del file_of(call).ipsets[str(call.params["name"])]


@below("/ipset/{name}", "POST", VM, CLUSTER)
async def add_entry(call: Call) -> Any:
    """Adds an address, or the name of an alias that is there."""
    given, entries = str(call.params["cidr"]), _ipset(call).entries
    if not is_network(given) and file_of(call).errors_of({"type": "group", "source": given}, above(call)):
        raise PveError(f"no such alias '{given}'")
    if given.endswith("/0"):
        raise refused(cidr="a zero prefix is not allowed in ipset entries")
    cidr = masked(given)
    if cidr in entries:
        raise refused(cidr=f"address '{cidr}' already exists")
    entries[cidr] = _entry(call, {"cidr": cidr})


def _entry(call: Call, entry: dict[str, Any]) -> dict[str, Any]:
    entry |= {key: call.params[key] for key in ("comment", "nomatch") if key in call.raw}
    if "nomatch" in entry:
        entry["nomatch"] = int(bool(entry["nomatch"]))
    return entry


@below("/ipset/{name}/{cidr}", "GET", VM, CLUSTER)
async def entry(call: Call) -> Any:
    entries = _ipset(call).entries
    found = entries.get(masked(str(call.params["cidr"])))
    if found is None:
        raise PveError(f"no such entry '{call.params['cidr']}'")
    return {**found, "digest": digest_of([one for _, one in sorted(entries.items())])}


@below("/ipset/{name}/{cidr}", "PUT", VM, CLUSTER)
async def change_entry(call: Call) -> Any:
    found = _ipset(call).entries.get(masked(str(call.params["cidr"])))
    if found is None:
        raise PveError(f"no such entry '{call.params['cidr']}'")
    _entry(call, found)


@below("/ipset/{name}/{cidr}", "DELETE", VM, CLUSTER)
async def drop_entry(call: Call) -> Any:
    _ipset(call).entries.pop(masked(str(call.params["cidr"])), None)


# ---------------------------------------------------------------------- aliases and the rest


def _alias_row(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "ipversion": 6 if ":" in one["cidr"] else 4}


@below("/aliases", "GET", VM, CLUSTER)
async def aliases(call: Call) -> Any:
    rows = [_alias_row(one) for _, one in sorted(file_of(call).aliases.items())]
    return [{**row, "digest": digest_of(rows)} for row in rows]


@below("/aliases", "POST", VM, CLUSTER)
async def add_alias(call: Call) -> Any:
    file, name = file_of(call), str(call.params["name"])
    if name.lower() in file.aliases:
        raise refused(name=f"alias '{name.lower()}' already exists")
    file.aliases[name.lower()] = {
        key: call.params[key] for key in ("name", "cidr", "comment") if key in call.raw or key == "name"
    }


@below("/aliases/{name}", "PUT", VM, CLUSTER)
async def change_alias(call: Call) -> Any:
    file, name = file_of(call), str(call.params["name"]).lower()
    if name not in file.aliases:
        raise refused(name="no such alias")
    found = file.aliases.pop(name)
    found |= {key: call.params[key] for key in ("cidr", "comment") if key in call.raw}
    new = str(call.params.get("rename", found["name"]))
    file.aliases[new.lower()] = {**found, "name": new}


@below("/aliases/{name}", "DELETE", VM, CLUSTER)
async def drop_alias(call: Call) -> Any:
    """Removes an alias whoever uses it: their rules then carry an error."""
    file_of(call).aliases.pop(str(call.params["name"]).lower(), None)


@below("/refs", "GET", VM, CLUSTER)
async def refs(call: Call) -> Any:
    found, wanted = [], call.params.get("type")
    own = "guest" if "vmid" in call.params else "dc"
    for scope, file in ((own, file_of(call)), ("dc", above(call))):
        if file is None:
            continue
        if wanted in {None, "ipset"}:
            found += [
                {"type": "ipset", "name": name, "ref": f"+{name}", "scope": scope} for name in file.ipsets
            ]
        if wanted in {None, "alias"}:
            names = (str(one["name"]) for one in file.aliases.values())
            found += [{"type": "alias", "name": name, "ref": name, "scope": scope} for name in names]
    return found
