"""One firewall file: options, aliases, ipsets, security groups and rules, each part with a digest of its own.

No packet is ever filtered by these: they are kept, checked and shown as Proxmox keeps them (PVE/Firewall.pm).
"""

import copy
import hashlib
import ipaddress
import json
from dataclasses import dataclass, field
from typing import Any

from zone9.sandbox import firewall_formats as formats
from zone9.sandbox.answers import PveError

STALE = "detected modified configuration - file changed by other user? Try again."
ACTIONS = frozenset({"ACCEPT", "DROP", "REJECT"})
RULE_KEYS = (
    "type", "action", "macro", "iface", "source", "dest", "proto", "dport", "sport", "icmp-type", "log", "comment", "enable",
)  # fmt: skip
VERSION_OF = {"icmp": 4, "ipv6-icmp": 6, "icmpv6": 6}

Rule = dict[str, Any]


def digest_of(part: Any) -> str:
    """Is the digest of one part; that of nothing is the sha1 of nothing."""
    text = json.dumps(part, sort_keys=True) if part else ""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def check_digest(given: Any, part: Any) -> None:
    if given and given != digest_of(part):
        raise PveError(STALE)


@dataclass(slots=True)
class Ipset:
    """Is a set of addresses, by address."""

    comment: str = ""
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class Firewall:
    """Is a file under /etc/pve/firewall; `env` is what its rules may name: vm, host or cluster."""

    env: str = "vm"
    options: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, dict[str, Any]] = field(default_factory=dict)
    ipsets: dict[str, Ipset] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    groups: dict[str, list[Rule]] = field(default_factory=dict)
    group_comments: dict[str, str] = field(default_factory=dict)

    def copy(self) -> "Firewall":
        return copy.deepcopy(self)

    def errors_of(self, rule: Rule, above: "Firewall | None") -> dict[str, str]:
        """Answers what is wrong with a rule beside its formats; `above` is the cluster's file."""
        errors: dict[str, str] = {}
        kind, action = str(rule.get("type")), str(rule.get("action"))
        if kind == "forward" and self.env == "vm":
            errors["type"] = f"invalid rule type 'forward' for rule_env '{self.env}'"
        elif kind != "group" and action not in ACTIONS:
            errors["action"] = f"unknown action '{action}'"
        iface = str(rule.get("iface", ""))
        if iface and self.env == "vm" and not (iface.startswith("net") and iface[3:].isdigit()):
            errors["iface"] = r"value does not match the regex pattern 'net\d+'"
        if "macro" in rule and rule["macro"] not in formats.MACROS:
            errors["macro"] = f"unknown macro '{rule['macro']}'"
        for key in ("dport", "sport"):
            if key in rule and "proto" not in rule and "macro" not in rule:
                errors["proto"] = f"missing property - '{key}' requires this property"
        for key in ("source", "dest"):
            if key in rule and (why := self._unknown(str(rule[key]), above)):
                errors[key] = why
        return errors

    def _unknown(self, text: str, above: "Firewall | None") -> str | None:
        for part in text.split(","):
            if part.startswith("+"):
                if not self._knows("ipsets", part[1:], above):
                    return f"no such ipset '{part[1:]}'"
            elif formats.WORD.fullmatch(part) and not self._knows("aliases", part.lower(), above):
                return f"no such alias '{part}'"
        return None

    def _knows(self, what: str, name: str, above: "Firewall | None") -> bool:
        scope, slash, plain = name.rpartition("/")
        return (scope != "dc" and plain in getattr(self, what)) or (
            (not slash or scope == "dc") and above is not None and plain in getattr(above, what)
        )

    def shown(self, rules: list[Rule], above: "Firewall | None") -> list[Rule]:
        digest = digest_of(rules)
        return [{**self._rule(rule, above), "pos": pos, "digest": digest} for pos, rule in enumerate(rules)]

    def _rule(self, rule: Rule, above: "Firewall | None") -> Rule:
        row = dict(rule)
        if errors := self.errors_of(rule, above):
            row["errors"] = errors
        found = {VERSION_OF[rule["proto"]]} if rule.get("proto") in VERSION_OF else set()
        for key in ("source", "dest"):
            found |= formats.versions(str(rule[key])) if key in rule else set()
        if len(found) == 1:
            row["ipversion"] = found.pop()
        return row


def masked(cidr: str) -> str:
    """Writes an IPv4 network without its host bits; everything else stays as it was sent (recorded)."""
    if "/" not in cidr or ":" in cidr or not formats.is_network(cidr):
        return cidr
    return str(ipaddress.ip_network(cidr, strict=False))
