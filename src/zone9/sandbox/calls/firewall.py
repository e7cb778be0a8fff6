"""Firewalls of VMs, nodes and the cluster: the same calls below three paths.

They are kept beside the config: no lock line stops a write, and a VM that is not there gets a file all the same
(pve-facts 6.2, firewall 6).
"""

from collections.abc import Callable
from typing import Any

from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.call import CALLS, Call, Handler, Listing, serves
from zone9.sandbox.firewall import RULE_KEYS, Firewall, Ipset, Rule, check_digest, digest_of, masked
from zone9.sandbox.firewall_formats import MACROS, is_network
from zone9.sandbox.vm.values import split_list

VM, NODE, CLUSTER = "/nodes/{node}/qemu/{vmid}/firewall", "/nodes/{node}/firewall", "/cluster/firewall"
BOOLEANS = frozenset(
    {"dhcp", "ebtables", "enable", "ipfilter", "macfilter", "ndp", "nftables", "nosmurfs", "radv", "tcpflags"}
)
NOT_OPTIONS = frozenset({"node", "vmid", "delete", "digest"})


def _file(call: Call) -> Firewall:
    """Answers the file that a path means; a write makes it."""
    known = call.world.cluster.firewalls
    if "vmid" in call.params:
        return known.setdefault(call.vmid, Firewall("vm"))
    name = str(call.params["node"]) if "node" in call.params else ""
    return known.setdefault(name, Firewall("host" if name else "cluster"))


def _above(call: Call) -> Firewall | None:
    return call.world.cluster.firewalls.get("") if "node" in call.params else None


def _below(suffix: str, verb: str, *bases: str) -> Callable[[Handler], Handler]:
    """Serves one call below each base that has it."""

    def enter(handler: Handler) -> Handler:
        for base in bases:
            CALLS[verb, f"{base}{suffix}"] = handler
        return handler

    return enter


@serves("GET", VM)
async def index(call: Call) -> Any:
    return [{"name": name} for name in ("rules", "aliases", "ipset", "refs", "options")]


# ---------------------------------------------------------------------- options


@_below("/options", "GET", VM, NODE, CLUSTER)
async def options(call: Call) -> Any:
    stored = _file(call).options
    return {**stored, "digest": digest_of(stored)}


@_below("/options", "PUT", VM, NODE, CLUSTER)
async def set_options(call: Call) -> Any:
    stored = _file(call).options
    check_digest(call.params.get("digest"), stored)
    known = (call.method.info.get("parameters") or {}).get("properties") or {}
    for key in split_list(str(call.params.get("delete", ""))):
        if key not in known or key in NOT_OPTIONS:
            raise refused(delete=f"no such option '{key}'")
        stored.pop(key, None)
    for key in call.raw:
        if key not in NOT_OPTIONS:
            value = call.params[key]
            stored[key] = int(value) if key in BOOLEANS else value


# ---------------------------------------------------------------------- rules


def _rules(call: Call) -> list[Rule]:
    """Answers the rules that a path means: a file's own, or a security group's."""
    file, group = _file(call), call.params.get("group")
    if group is None:
        return file.rules
    if str(group) not in file.groups:
        raise PveError(f"no such security group '{group}'")
    return file.groups[str(group)]


def _at(call: Call) -> int:
    pos = int(call.params["pos"])
    if pos >= len(_rules(call)):
        raise PveError(f"no rule at position {pos}")
    return pos


def _given(call: Call) -> Rule:
    rule = {key: call.params[key] for key in RULE_KEYS if key in call.raw}
    if "comment" in rule:
        rule["comment"] = str(rule["comment"]).split("\n", 1)[0]
    return rule


def _must_hold(call: Call, rule: Rule) -> None:
    if errors := _file(call).errors_of(rule, _above(call)):
        raise refused(**errors)


GROUP = "/groups/{group}"


@_below("/rules", "GET", VM, NODE, CLUSTER)
@_below(GROUP, "GET", CLUSTER)
async def rules(call: Call) -> Any:
    return _file(call).shown(_rules(call), _above(call))


@_below("/rules", "POST", VM, NODE, CLUSTER)
@_below(GROUP, "POST", CLUSTER)
async def add_rule(call: Call) -> Any:
    """Puts a rule on top, disabled unless told otherwise; a position that is given says nothing (recorded)."""
    check_digest(call.params.get("digest"), _rules(call))
    rule = _given(call)
    _must_hold(call, rule)
    rule["enable"] = int(bool(rule.get("enable", 0)))
    _rules(call).insert(0, rule)


@_below("/rules/{pos}", "GET", VM, NODE, CLUSTER)
@_below(f"{GROUP}/{{pos}}", "GET", CLUSTER)
async def rule(call: Call) -> Any:
    row = _file(call).shown(_rules(call), _above(call))[_at(call)]
    return {**row, "pos": str(row["pos"])}


@_below("/rules/{pos}", "PUT", VM, NODE, CLUSTER)
@_below(f"{GROUP}/{{pos}}", "PUT", CLUSTER)
async def change_rule(call: Call) -> Any:
    kept = _rules(call)
    check_digest(call.params.get("digest"), kept)
    pos = _at(call)
    if "moveto" in call.params:
        target = int(call.params["moveto"])
        moved = kept[pos]
        # It comes before the rule that has the position now.
        order = [one for number, one in enumerate(kept) if number != pos]
        order.insert(target - (target > pos), moved)
        kept[:] = order
        return
    changed = {**kept[pos], **_given(call)}
    for key in split_list(str(call.params.get("delete", ""))):
        changed.pop(key, None)
    _must_hold(call, changed)
    changed["enable"] = int(bool(changed.get("enable", 0)))
    kept[pos] = changed


@_below("/rules/{pos}", "DELETE", VM, NODE, CLUSTER)
@_below(f"{GROUP}/{{pos}}", "DELETE", CLUSTER)
async def drop_rule(call: Call) -> Any:
    check_digest(call.params.get("digest"), _rules(call))
    del _rules(call)[_at(call)]


# ---------------------------------------------------------------------- groups


@serves("GET", f"{CLUSTER}/groups")
async def groups(call: Call) -> Any:
    file = _file(call)
    digest = digest_of(sorted(file.groups))
    return [
        {
            "group": name,
            "digest": digest,
            **({"comment": file.group_comments[name]} if file.group_comments.get(name) else {}),
        }
        for name in sorted(file.groups)
    ]


@serves("POST", f"{CLUSTER}/groups")
async def add_group(call: Call) -> Any:
    file, name = _file(call), str(call.params["group"])
    if old := call.params.get("rename"):
        if old not in file.groups:
            raise refused(group=f"Security group '{old}' does not exist")
        file.groups[name] = file.groups.pop(str(old))
        file.group_comments[name] = file.group_comments.pop(str(old), "")
    elif name in file.groups:
        raise refused(group=f"Security group '{name}' already exists")
    file.groups.setdefault(name, [])
    if "comment" in call.params:
        file.group_comments[name] = str(call.params["comment"])


@serves("DELETE", f"{CLUSTER}/groups/{{group}}")
async def drop_group(call: Call) -> Any:
    name = str(call.params["group"])
    if _rules(call):
        raise PveError(f"Security group '{name}' is not empty")
    del _file(call).groups[name]


# ---------------------------------------------------------------------- ipsets


def _ipset(call: Call) -> Ipset:
    name = str(call.params["name"])
    found = _file(call).ipsets.get(name)
    if found is None:
        raise PveError(f"no such IPSet '{name}'")
    return found


@_below("/ipset", "GET", VM, CLUSTER)
async def ipsets(call: Call) -> Any:
    file = _file(call)
    rows = [
        {"name": name, **({"comment": one.comment} if one.comment else {})}
        for name, one in sorted(file.ipsets.items())
    ]
    return [{**row, "digest": digest_of(rows)} for row in rows]


@_below("/ipset", "POST", VM, CLUSTER)
async def add_ipset(call: Call) -> Any:
    file, name = _file(call), str(call.params["name"])
    if old := call.params.get("rename"):
        if old not in file.ipsets:
            raise refused(name=f"IPSet '{old}' does not exist")
        file.ipsets[name] = file.ipsets.pop(str(old))
    elif name in file.ipsets:
        raise refused(name=f"IPSet '{name}' already exists")
    made = file.ipsets.setdefault(name, Ipset())
    if "comment" in call.params:
        made.comment = str(call.params["comment"])


@_below("/ipset/{name}", "GET", VM, CLUSTER)
async def ipset(call: Call) -> Any:
    rows = [entry for _, entry in sorted(_ipset(call).entries.items())]
    return [{**row, "digest": digest_of(rows)} for row in rows]


@_below("/ipset/{name}", "DELETE", VM, CLUSTER)
async def drop_ipset(call: Call) -> Any:
    if _ipset(call).entries and not call.flag("force"):
        raise PveError(f"IPSet '{call.params['name']}' is not empty")
    del _file(call).ipsets[str(call.params["name"])]


@_below("/ipset/{name}", "POST", VM, CLUSTER)
async def add_entry(call: Call) -> Any:
    """Adds an address, or the name of an alias that is there."""
    given, entries = str(call.params["cidr"]), _ipset(call).entries
    if not is_network(given) and _file(call).errors_of({"type": "group", "source": given}, _above(call)):
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


@_below("/ipset/{name}/{cidr}", "GET", VM, CLUSTER)
async def entry(call: Call) -> Any:
    entries = _ipset(call).entries
    found = entries.get(masked(str(call.params["cidr"])))
    if found is None:
        raise PveError(f"no such entry '{call.params['cidr']}'")
    return {**found, "digest": digest_of([one for _, one in sorted(entries.items())])}


@_below("/ipset/{name}/{cidr}", "PUT", VM, CLUSTER)
async def change_entry(call: Call) -> Any:
    found = _ipset(call).entries.get(masked(str(call.params["cidr"])))
    if found is None:
        raise PveError(f"no such entry '{call.params['cidr']}'")
    _entry(call, found)


@_below("/ipset/{name}/{cidr}", "DELETE", VM, CLUSTER)
async def drop_entry(call: Call) -> Any:
    _ipset(call).entries.pop(masked(str(call.params["cidr"])), None)


# ---------------------------------------------------------------------- aliases and the rest


def _alias_row(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "ipversion": 6 if ":" in one["cidr"] else 4}


@_below("/aliases", "GET", VM, CLUSTER)
async def aliases(call: Call) -> Any:
    rows = [_alias_row(one) for _, one in sorted(_file(call).aliases.items())]
    return [{**row, "digest": digest_of(rows)} for row in rows]


@_below("/aliases", "POST", VM, CLUSTER)
async def add_alias(call: Call) -> Any:
    file, name = _file(call), str(call.params["name"])
    if name.lower() in file.aliases:
        raise refused(name=f"alias '{name.lower()}' already exists")
    file.aliases[name.lower()] = {
        key: call.params[key] for key in ("name", "cidr", "comment") if key in call.raw or key == "name"
    }


@_below("/aliases/{name}", "PUT", VM, CLUSTER)
async def change_alias(call: Call) -> Any:
    file, name = _file(call), str(call.params["name"]).lower()
    if name not in file.aliases:
        raise refused(name="no such alias")
    found = file.aliases.pop(name)
    found |= {key: call.params[key] for key in ("cidr", "comment") if key in call.raw}
    new = str(call.params.get("rename", found["name"]))
    file.aliases[new.lower()] = {**found, "name": new}


@_below("/aliases/{name}", "DELETE", VM, CLUSTER)
async def drop_alias(call: Call) -> Any:
    """Removes an alias whoever uses it: their rules then carry an error."""
    _file(call).aliases.pop(str(call.params["name"]).lower(), None)


@_below("/refs", "GET", VM, CLUSTER)
async def refs(call: Call) -> Any:
    found, wanted = [], call.params.get("type")
    own = "guest" if "vmid" in call.params else "dc"
    for scope, file in ((own, _file(call)), ("dc", _above(call))):
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


@serves("GET", f"{CLUSTER}/macros")
async def macros(call: Call) -> Any:
    return [{"macro": name, "descr": f"{name} traffic"} for name in sorted(MACROS)]


@_below("/log", "GET", VM, NODE)
async def log(call: Call) -> Any:
    """Shows that there is no log: nothing is filtered here."""
    if "since" in call.params or "until" in call.params:
        return []
    return Listing([{"n": 1, "t": "unable to open file - No such file or directory"}], 1)
