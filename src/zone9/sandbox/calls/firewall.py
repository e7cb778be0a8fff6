"""Firewalls of VMs, nodes and the cluster: the same calls below three paths.

They are kept beside the config: no lock line stops a write, and a VM that is not there gets a file all the same
(pve-facts 6.2, firewall 6).
"""

from collections.abc import Callable
from typing import Any

from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.call import CALLS, Call, Handler, Listing, serves
from zone9.sandbox.firewall import RULE_KEYS, Firewall, Rule, check_digest, digest_of
from zone9.sandbox.firewall_formats import MACROS
from zone9.sandbox.vm.values import split_list

VM, NODE, CLUSTER = "/nodes/{node}/qemu/{vmid}/firewall", "/nodes/{node}/firewall", "/cluster/firewall"
BOOLEANS = frozenset(
    {"dhcp", "ebtables", "enable", "ipfilter", "macfilter", "ndp", "nftables", "nosmurfs", "radv", "tcpflags"}
)
NOT_OPTIONS = frozenset({"node", "vmid", "delete", "digest"})


def file_of(call: Call) -> Firewall:
    """Answers the file that a path means; a write makes it."""
    known = call.world.cluster.firewalls
    if "vmid" in call.params:
        return known.setdefault(call.vmid, Firewall("vm"))
    name = str(call.params["node"]) if "node" in call.params else ""
    return known.setdefault(name, Firewall("host" if name else "cluster"))


def above(call: Call) -> Firewall | None:
    return call.world.cluster.firewalls.get("") if "node" in call.params else None


def below(suffix: str, verb: str, *bases: str) -> Callable[[Handler], Handler]:
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


@below("/options", "GET", VM, NODE, CLUSTER)
async def options(call: Call) -> Any:
    stored = file_of(call).options
    return {**stored, "digest": digest_of(stored)}


@below("/options", "PUT", VM, NODE, CLUSTER)
async def set_options(call: Call) -> Any:
    stored = file_of(call).options
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
    file, group = file_of(call), call.params.get("group")
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
    if errors := file_of(call).errors_of(rule, above(call)):
        raise refused(**errors)


GROUP = "/groups/{group}"


@below("/rules", "GET", VM, NODE, CLUSTER)
@below(GROUP, "GET", CLUSTER)
async def rules(call: Call) -> Any:
    return file_of(call).shown(_rules(call), above(call))


@below("/rules", "POST", VM, NODE, CLUSTER)
@below(GROUP, "POST", CLUSTER)
async def add_rule(call: Call) -> Any:
    """Puts a rule on top, disabled unless told otherwise; a position that is given says nothing (recorded)."""
    check_digest(call.params.get("digest"), _rules(call))
    rule = _given(call)
    _must_hold(call, rule)
    rule["enable"] = int(bool(rule.get("enable", 0)))
    _rules(call).insert(0, rule)


@below("/rules/{pos}", "GET", VM, NODE, CLUSTER)
@below(f"{GROUP}/{{pos}}", "GET", CLUSTER)
async def rule(call: Call) -> Any:
    row = file_of(call).shown(_rules(call), above(call))[_at(call)]
    return {**row, "pos": str(row["pos"])}


@below("/rules/{pos}", "PUT", VM, NODE, CLUSTER)
@below(f"{GROUP}/{{pos}}", "PUT", CLUSTER)
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


@below("/rules/{pos}", "DELETE", VM, NODE, CLUSTER)
@below(f"{GROUP}/{{pos}}", "DELETE", CLUSTER)
async def drop_rule(call: Call) -> Any:
    check_digest(call.params.get("digest"), _rules(call))
    del _rules(call)[_at(call)]


# ---------------------------------------------------------------------- groups


@serves("GET", f"{CLUSTER}/groups")
async def groups(call: Call) -> Any:
    file = file_of(call)
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
    file, name = file_of(call), str(call.params["group"])
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
    del file_of(call).groups[name]


# ---------------------------------------------------------------------- the rest


@serves("GET", f"{CLUSTER}/macros")
async def macros(call: Call) -> Any:
    return [{"macro": name, "descr": f"{name} traffic"} for name in sorted(MACROS)]


@below("/log", "GET", VM, NODE)
async def log(call: Call) -> Any:
    """Shows that there is no log: nothing is filtered here."""
    if "since" in call.params or "until" in call.params:
        return []
    return Listing([{"n": 1, "t": "unable to open file - No such file or directory"}], 1)
