"""The permission check that stands in the schema of each method (PVE::RPCEnvironment, check_api2_permissions).

It runs before the parameters are validated and before anything is looked up, so an absent VM is 403 to whoever
may not see it (pve-facts 6.5).
"""

import re
from typing import Any

from zone9.sandbox.accounts import Accounts
from zone9.sandbox.answers import denied
from zone9.sandbox.schema import Method

# Whoever may make things below these may also share them (check_perm_modify).
DELEGATED = {"/storage/": "Datastore.Allocate", "/vms/": "VM.Allocate", "/pool/": "Pool.Allocate"}
HOLE = re.compile(r"\{(\w+)\}")


def check(accounts: Accounts, user: str, method: Method, params: dict[str, Any]) -> None:
    """Raises the 403 of a method's own rule; rules in words only are left to the method."""
    rule = method.info.get("permissions")
    if rule is None:
        if user != "root@pam":
            raise denied("user != root@pam")
        return
    if rule.get("user") in {"all", "world"}:
        return
    if rule.get("check"):
        _holds(accounts, user, rule["check"], params, quiet=False)


def _holds(accounts: Accounts, user: str, rule: list[Any], params: dict[str, Any], *, quiet: bool) -> bool:
    match rule[0]:
        case "and":
            return all(_holds(accounts, user, part, params, quiet=quiet) for part in rule[1:])
        case "or":
            if any(_holds(accounts, user, part, params, quiet=True) for part in rule[1:]):
                return True
            return _no(quiet, "")
        case "perm":
            return _has(accounts, user, rule, params, quiet=quiet)
        case "userid-param":
            return (
                rule[1] == "self"
                and user.split("!", maxsplit=1)[0] == str(params.get("userid", ""))
                and "!" not in user
            )
        case "userid-group":
            held = any(accounts.allowed(user, "/access/groups", name) for name in rule[1])
            return held or _no(quiet, "")
        case "perm-modify":
            path = HOLE.sub(lambda hole: str(params.get(hole[1], "")), rule[1])
            names = ["Permissions.Modify"]
            names += [
                right for prefix, right in DELEGATED.items() if path.startswith(prefix) and path != prefix
            ]
            held = any(accounts.allowed(user, path, name) for name in names)
            return held or _no(quiet, f"{path}, {'|'.join(names)}")
        case _:
            return True


def _has(accounts: Accounts, user: str, rule: list[Any], params: dict[str, Any], *, quiet: bool) -> bool:
    options = dict(zip(rule[3::2], rule[4::2], strict=False))
    if (needed := options.get("require_param")) and not params.get(needed):
        return False
    path = HOLE.sub(lambda hole: str(params.get(hole[1], "")), rule[1])
    rights = accounts.rights(user, path)
    if options.get("any"):
        return any(name in rights for name in rule[2]) or _no(quiet, f"{path}, {'|'.join(rule[2])}")
    for name in rule[2]:
        if name not in rights:
            return _no(quiet, f"{path}, {name}")
    return True


def _no(quiet: bool, detail: str) -> bool:
    if quiet:
        return False
    raise denied(detail)
