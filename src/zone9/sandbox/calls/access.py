"""What is under /access: logging in, users, tokens, roles and ACLs."""

from typing import Any

from zone9.sandbox.accounts import (
    ACL_PATH,
    BUILT_IN_ROLES,
    Acl,
    Token,
    User,
    check_privileges,
    no_user,
    normal_path,
)
from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.call import Call, serves
from zone9.sandbox.vm.values import split_list


@serves("POST", "/access/ticket")
async def ticket(call: Call) -> Any:
    """Logs in with a password or a ticket; a failure is the one 401 with a body (pve-facts 6.4)."""
    userid = str(call.params["username"])
    if "@" not in userid:
        userid = f"{userid}@{call.params.get('realm', 'pam')}"
    tickets = call.world.options["tickets"]
    password = str(call.params["password"])
    if not call.world.accounts.by_password(userid, password) and tickets.check(password) != userid:
        raise PveError("authentication failure", status=401)
    return {
        "username": userid,
        "ticket": tickets.ticket(userid),
        "CSRFPreventionToken": tickets.csrf(userid),
        "cap": _capabilities(call, userid),
    }


def _capabilities(call: Call, userid: str) -> dict[str, dict[str, int]]:
    rights = call.world.accounts.rights
    return {
        "vms": {k: 1 for k in rights(userid, "/vms") if k.startswith("VM.")},
        "storage": {k: 1 for k in rights(userid, "/storage") if k.startswith("Datastore.")},
        "sdn": {k: 1 for k in rights(userid, "/sdn") if k.startswith("SDN.")},
        "nodes": {k: 1 for k in rights(userid, "/nodes") if k.startswith("Sys.")},
        "dc": {k: 1 for k in rights(userid, "/") if k.startswith(("Sys.", "SDN."))},
        "access": {
            k: 1 for k in rights(userid, "/access") if k.startswith(("User.", "Group.", "Permissions."))
        },
        "mapping": {k: 1 for k in rights(userid, "/mapping") if k.startswith("Mapping.")},
    }


@serves("GET", "/access/permissions")
async def permissions(call: Call) -> Any:
    accounts = call.world.accounts
    who = str(call.params.get("userid") or call.user)
    if who != call.user:
        call.must("/access", "Sys.Audit")
        if who.split("!", maxsplit=1)[0] not in accounts.users:
            raise no_user(who)
    if path := call.params.get("path"):
        normal = str(path)
        return {normal: dict(accounts.rights(who, normal)) if normal_path(normal) == normal else {}}
    found = {path: dict(accounts.rights(who, path)) for path in accounts.listed_paths()}
    return {path: rights for path, rights in found.items() if rights}


@serves("GET", "/access/users")
async def users(call: Call) -> Any:
    sees = call.may("/access/groups", "Sys.Audit") or call.may("/access/groups", "User.Modify")
    shown = [user for user in call.world.accounts.users.values() if sees or user.userid == call.user]
    return [_user_row(user) for user in shown]


def _user_row(user: User) -> dict[str, Any]:
    row: dict[str, Any] = {"userid": user.userid, "enable": int(user.enable), "expire": 0}
    row["realm-type"] = user.userid.split("@")[1]
    if user.comment:
        row["comment"] = user.comment
    return row


@serves("POST", "/access/users")
async def add_user(call: Call) -> Any:
    accounts = call.world.accounts
    userid = str(call.params["userid"])
    call.must(f"/access/realm/{userid.rsplit('@', 1)[-1]}", "Realm.AllocateUser")
    if userid in accounts.users:
        raise PveError(f"create user failed: user '{userid}' already exists")
    user = accounts.add_user(userid, str(call.params.get("password", "")))
    user.comment = str(call.params.get("comment", ""))


@serves("DELETE", "/access/users/{userid}")
async def drop_user(call: Call) -> Any:
    accounts = call.world.accounts
    if accounts.users.pop(str(call.params["userid"]), None) is None:
        raise no_user(str(call.params["userid"]))
    accounts.changed()


@serves("GET", "/access/users/{userid}/token")
async def tokens(call: Call) -> Any:
    user = call.world.accounts.users.get(str(call.params["userid"]))
    if user is None:
        raise no_user(str(call.params["userid"]))
    return [
        {"tokenid": name, "privsep": int(t.privsep), "expire": t.expire} for name, t in user.tokens.items()
    ]


@serves("POST", "/access/users/{userid}/token/{tokenid}")
async def add_token(call: Call) -> Any:
    accounts = call.world.accounts
    userid, tokenid = str(call.params["userid"]), str(call.params["tokenid"])
    user = accounts.users.get(userid)
    if user is None:
        raise no_user(userid)
    if tokenid in user.tokens:
        raise refused(tokenid="Token already exists.")
    privsep = bool(call.params.get("privsep", 1))
    secret = accounts.add_token(f"{userid}!{tokenid}", privsep=privsep).partition("=")[2]
    return {"full-tokenid": f"{userid}!{tokenid}", "info": {"privsep": str(int(privsep))}, "value": secret}


@serves("DELETE", "/access/users/{userid}/token/{tokenid}")
async def drop_token(call: Call) -> Any:
    accounts = call.world.accounts
    user = accounts.users.get(str(call.params["userid"]))
    if user is None or user.tokens.pop(str(call.params["tokenid"]), None) is None:
        raise PveError(f"no such token '{call.params['tokenid']}' for user '{call.params['userid']}'")
    accounts.changed()


@serves("GET", "/access/roles")
async def roles(call: Call) -> Any:
    found = call.world.accounts.roles
    return [
        {"roleid": name, "privs": ",".join(sorted(privs)), "special": int(name in BUILT_IN_ROLES)}
        for name, privs in found.items()
    ]


@serves("POST", "/access/roles")
async def add_role(call: Call) -> Any:
    accounts = call.world.accounts
    roleid = str(call.params["roleid"])
    privileges = check_privileges(split_list(str(call.params.get("privs", ""))))
    if roleid in accounts.roles:
        raise PveError(f"create role failed: role '{roleid}' already exists")
    accounts.roles[roleid] = privileges
    accounts.changed()


@serves("GET", "/access/acl")
async def acl(call: Call) -> Any:
    sees = call.may("/access", "Sys.Audit") or call.may("/access", "Permissions.Modify")
    found = []
    for path, entry in call.world.accounts.acl.items():
        if not sees and not call.may(path, "Permissions.Modify"):
            continue
        for kind, holders in (("user", entry.users), ("token", entry.tokens), ("group", entry.groups)):
            for who, roles in holders.items():
                found += [
                    {"path": path, "type": kind, "ugid": who, "roleid": role, "propagate": propagate}
                    for role, propagate in roles.items()
                ]
    return found


@serves("PUT", "/access/acl")
async def change_acl(call: Call) -> Any:
    accounts = call.world.accounts
    path = normal_path(str(call.params["path"]))
    if path is None or not ACL_PATH.fullmatch(path):
        raise refused(path=f"invalid ACL path '{call.params['path']}'")
    propagate = int(call.params.get("propagate", 1))
    rights = accounts.rights(call.user, path)
    entry = accounts.acl.get(path, Acl())
    for role in split_list(str(call.params["roles"])):
        if role not in accounts.roles:
            raise PveError(f"ACL update failed: role '{role}' does not exist")
        if "Permissions.Modify" not in rights and not accounts.roles[role] <= rights.keys():
            why = f"role: Cannot add role '{role}' - requires 'Permissions.Modify' or superset of privileges."
            raise PveError(f"ACL update failed: 400 Parameter verification failed.\n{why}")
        for parameter, holders in (
            ("users", entry.users),
            ("tokens", entry.tokens),
            ("groups", entry.groups),
        ):
            for who in split_list(str(call.params.get(parameter, ""))):
                if parameter == "users" and who not in accounts.users:
                    raise PveError(f"ACL update failed: user '{who}' does not exist")
                if call.flag("delete"):
                    holders.get(who, {}).pop(role, None)
                else:
                    holders.setdefault(who, {})[role] = propagate
    accounts.acl[path] = entry
    accounts.changed()


@serves("GET", "/access")
async def index(call: Call) -> Any:
    names = "users groups roles acl domains openid tfa ticket password"
    return [{"subdir": name} for name in names.split()]


@serves("GET", "/access/groups")
async def groups(call: Call) -> Any:
    return [{"groupid": name} for name in sorted(call.world.accounts.groups)]


@serves("GET", "/access/tfa")
async def tfa(call: Call) -> Any:
    return []


@serves("GET", "/access/roles/{roleid}")
async def role(call: Call) -> Any:
    name = str(call.params["roleid"])
    if name not in call.world.accounts.roles:
        raise PveError(f"role '{name}' does not exist")
    return dict.fromkeys(sorted(call.world.accounts.roles[name]), 1)


@serves("GET", "/access/users/{userid}")
async def user(call: Call) -> Any:
    found = call.world.accounts.users.get(str(call.params["userid"]))
    if found is None:
        raise no_user(str(call.params["userid"]))
    tokens = {name: _token_row(token) for name, token in found.tokens.items()}
    row: dict[str, Any] = {"enable": int(found.enable), "expire": 0, "groups": sorted(found.groups)}
    return (
        row | ({"tokens": tokens} if tokens else {}) | ({"comment": found.comment} if found.comment else {})
    )


def _token_row(token: Token) -> dict[str, Any]:
    return {"privsep": int(token.privsep), "expire": token.expire}


@serves("GET", "/access/users/{userid}/token/{tokenid}")
async def token(call: Call) -> Any:
    found = call.world.accounts.users.get(str(call.params["userid"]))
    if found is None or str(call.params["tokenid"]) not in found.tokens:
        raise PveError(f"no such token '{call.params['tokenid']}' for user '{call.params['userid']}'")
    return _token_row(found.tokens[str(call.params["tokenid"])])


@serves("GET", "/access/domains")
async def domains(call: Call) -> Any:
    return [
        {"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
        {"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
    ]
