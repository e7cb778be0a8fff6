"""Users, tokens, roles and ACLs, and what they add up to on a path.

A privilege-separated token has the intersection of its own rights and its user's; an ACL on a deeper path
replaces the roles inherited from above; a right reached only through a pool has no propagation and shows as 0
(pve-facts 6.2, self-test). Nothing here knows a VM beyond its id.
"""

import re
import secrets
from dataclasses import dataclass, field

from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.state import Cluster

PRIVILEGES = frozenset(
    [
        "Datastore.Allocate",
        "Datastore.AllocateSpace",
        "Datastore.AllocateTemplate",
        "Datastore.Audit",
        "Group.Allocate",
        "Mapping.Audit",
        "Mapping.Modify",
        "Mapping.Use",
        "Permissions.Modify",
        "Pool.Allocate",
        "Pool.Audit",
        "Realm.Allocate",
        "Realm.AllocateUser",
        "SDN.Allocate",
        "SDN.Audit",
        "SDN.Use",
        "Sys.AccessNetwork",
        "Sys.Audit",
        "Sys.Console",
        "Sys.Incoming",
        "Sys.Modify",
        "Sys.PowerMgmt",
        "Sys.Syslog",
        "User.Modify",
        "VM.Allocate",
        "VM.Audit",
        "VM.Backup",
        "VM.Clone",
        "VM.Config.CDROM",
        "VM.Config.CPU",
        "VM.Config.Cloudinit",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.Console",
        "VM.GuestAgent.Audit",
        "VM.GuestAgent.FileRead",
        "VM.GuestAgent.FileSystemMgmt",
        "VM.GuestAgent.FileWrite",
        "VM.GuestAgent.Unrestricted",
        "VM.Migrate",
        "VM.PowerMgmt",
        "VM.Replicate",
        "VM.Snapshot",
        "VM.Snapshot.Rollback",
    ]
)
# What zone9's self-test asks of a token on /, propagated, and no more.
ZONE9_ROLE = frozenset(
    [
        "VM.Allocate",
        "VM.Audit",
        "VM.Clone",
        "VM.Config.CDROM",
        "VM.Config.CPU",
        "VM.Config.Cloudinit",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.GuestAgent.Audit",
        "VM.PowerMgmt",
        "Datastore.AllocateSpace",
        "Datastore.Audit",
        "SDN.Use",
        "Sys.Audit",
        "Sys.Syslog",
    ]
)
# The roles that Proxmox brings (PVE::AccessControl).
BUILT_IN_ROLES = {
    "Administrator": PRIVILEGES,
    "NoAccess": frozenset[str](),
    "PVEAdmin": PRIVILEGES
    - {"Mapping.Modify", "Permissions.Modify", "Realm.Allocate"}
    - {"Sys.AccessNetwork", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt"},
    "PVEAuditor": frozenset(name for name in PRIVILEGES if name.endswith(".Audit")),
    "PVEDatastoreAdmin": frozenset(name for name in PRIVILEGES if name.startswith("Datastore.")),
    "PVEDatastoreUser": frozenset({"Datastore.AllocateSpace", "Datastore.Audit"}),
    "PVEMappingAdmin": frozenset(name for name in PRIVILEGES if name.startswith("Mapping.")),
    "PVEMappingUser": frozenset({"Mapping.Audit", "Mapping.Use"}),
    "PVEPoolAdmin": frozenset({"Pool.Allocate", "Pool.Audit"}),
    "PVEPoolUser": frozenset({"Pool.Audit"}),
    "PVESDNAdmin": frozenset(name for name in PRIVILEGES if name.startswith("SDN.")),
    "PVESDNUser": frozenset({"SDN.Audit", "SDN.Use"}),
    "PVESysAdmin": frozenset({"Sys.Audit", "Sys.Console", "Sys.Syslog"}),
    "PVETemplateUser": frozenset({"VM.Audit", "VM.Clone"}),
    "PVEUserAdmin": frozenset({"Group.Allocate", "Realm.AllocateUser", "User.Modify"}),
    "PVEVMAdmin": frozenset(name for name in PRIVILEGES if name.startswith("VM.")),
    "PVEVMUser": frozenset(
        {"VM.Audit", "VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.PowerMgmt"}
        | {"VM.GuestAgent.Audit", "VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt"}
        | {"VM.GuestAgent.FileWrite"}
    ),
}
ACL_PATH = re.compile(
    r"/|/access(/groups(/[\w.-]+)?|/realm(/[\w.-]+)?)?|/nodes(/[\w.-]+)?|/pool(/[\w.-]+)*|"
    r"/sdn(/zones(/[\w.-]+(/[\w.-]+(/\d+)?)?)?|/fabrics(/[\w.-]+)?|/controllers(/[\w.-]+)?)?|"
    r"/storage(/[\w.-]+)?|/vms(/[1-9][0-9]{2,})?|/mapping(/(dir|pci|usb)(/[\w.-]+)?)?"
)
ROOT = "root@pam"
VM_PATH = re.compile(r"/vms/(\d+)")
LISTED = ("/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms")

Rights = dict[str, int]


@dataclass(slots=True)
class User:
    """Is a user of the realm; tokens by their short id."""

    userid: str
    password: str = ""
    enable: bool = True
    comment: str = ""
    groups: set[str] = field(default_factory=set)
    tokens: dict[str, "Token"] = field(default_factory=dict)


@dataclass(slots=True)
class Token:
    secret: str
    privsep: bool = True
    comment: str = ""
    expire: int = 0


@dataclass(slots=True)
class Acl:
    """Holds the roles of one path: role and propagation, by user, token or group."""

    users: dict[str, Rights] = field(default_factory=dict)
    tokens: dict[str, Rights] = field(default_factory=dict)
    groups: dict[str, Rights] = field(default_factory=dict)


class Accounts:
    """Answers who may do what; remembers it until an ACL, a role or a pool changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.users: dict[str, User] = {ROOT: User(ROOT, password="root")}
        self.roles: dict[str, frozenset[str]] = dict(BUILT_IN_ROLES)
        self.acl: dict[str, Acl] = {}
        self.groups: set[str] = set()
        self._known: dict[tuple[str, str], Rights] = {}
        self._version = -1

    # ------------------------------------------------------------------ changing

    def add_user(self, userid: str, password: str = "") -> User:
        self.users[userid] = user = User(userid, password)
        self.changed()
        return user

    def add_token(self, full: str, *, secret: str | None = None, privsep: bool = True) -> str:
        """Makes a token `user@realm!id` and answers what goes into the Authorization header."""
        userid, tokenid = full.split("!", 1)
        user = self.users.get(userid) or self.add_user(userid)
        token = user.tokens[tokenid] = Token(secret or secrets.token_hex(16), privsep)
        self.changed()
        return f"{full}={token.secret}"

    def grant(self, path: str, who: str, role: str | frozenset[str], *, propagate: bool = True) -> None:
        """Gives a user or token (`user@realm!id`) a role on a path."""
        if isinstance(role, frozenset):
            name = f"Role{len(self.roles)}"
            self.roles[name] = role
            role = name
        acl = self.acl.setdefault(normal_path(path) or path, Acl())
        (acl.tokens if "!" in who else acl.users).setdefault(who, {})[role] = int(propagate)
        self.changed()

    def revoke(self, path: str, who: str) -> None:
        """Takes every role of `who` on exactly this path away."""
        acl = self.acl.get(path, Acl())
        acl.users.pop(who, None)
        acl.tokens.pop(who, None)
        self.changed()

    def changed(self) -> None:
        self._known.clear()

    # ------------------------------------------------------------------ knowing

    def by_token(self, header: str) -> str | None:
        """Answers `user@realm!id` for a PVEAPIToken header's value, None when it is not right."""
        full, equals, secret = header.partition("=")
        userid, bang, tokenid = full.partition("!")
        user = self.users.get(userid)
        token = user.tokens.get(tokenid) if user and bang and equals and user.enable else None
        return full if token and secrets.compare_digest(token.secret.encode(), secret.encode()) else None

    def by_password(self, userid: str, password: str) -> bool:
        user = self.users.get(userid)
        return bool(user and user.enable and user.password and user.password == password)

    def rights(self, who: str, path: str) -> Rights:
        """Answers the rights on a path; 0 is a right without propagation, not a refusal."""
        if self._version != self._cluster.version:
            self._version = self._cluster.version
            self._known.clear()
        key = (who, path)
        if key not in self._known:
            self._known[key] = self._compute(who, path)
        return self._known[key]

    def listed_paths(self) -> list[str]:
        """Is the list of paths that GET /access/permissions goes through."""
        found = dict.fromkeys([*LISTED, *self.acl])
        for pool in self._cluster.pools.values():
            found.update(dict.fromkeys(f"/vms/{vmid}" for vmid in pool.vms))
        return list(found)

    def allowed(self, who: str, path: str, privilege: str) -> bool:
        return privilege in self.rights(who, path)

    def _compute(self, who: str, path: str) -> Rights:
        userid, bang, tokenid = who.partition("!")
        if userid == ROOT and not bang:
            return dict.fromkeys(PRIVILEGES, 1)
        own = self._of(userid, path, token=None)
        if not bang:
            return own
        user = self.users.get(userid)
        token = user.tokens.get(tokenid) if user else None
        if token is None:
            return {}
        if not token.privsep:
            return own
        narrow = self._of(userid, path, token=who)
        return {name: min(narrow[name], own[name]) for name in narrow if name in own}

    def _of(self, userid: str, path: str, *, token: str | None) -> Rights:
        if userid == ROOT and token is None:
            return dict.fromkeys(PRIVILEGES, 1)
        rights = self._privileges(self._roles(userid, path, token))
        if match := VM_PATH.fullmatch(path):
            pool = self._cluster.pool_of(int(match[1]))
            if pool is not None:
                for name in self._privileges(self._roles(userid, f"/pool/{pool}", token)):
                    rights.setdefault(name, 0)
        return rights

    def _roles(self, userid: str, path: str, token: str | None) -> Rights:
        roles: Rights = {}
        for prefix in _prefixes(path):
            acl = self.acl.get(prefix)
            if acl is None:
                continue
            final = prefix == path
            if token is not None:
                here = acl.tokens.get(token, {})
            else:
                here = acl.users.get(userid, {})
                user = self.users.get(userid)
                if not here and user:
                    here = {role: p for group in user.groups for role, p in acl.groups.get(group, {}).items()}
            chosen = {role: propagate for role, propagate in here.items() if final or propagate}
            if chosen:
                roles = chosen
        return {} if "NoAccess" in roles else roles

    def _privileges(self, roles: Rights) -> Rights:
        rights: Rights = {}
        for role, propagate in roles.items():
            for name in self.roles.get(role, frozenset()):
                rights[name] = max(rights.get(name, 0), propagate)
        return rights


def _prefixes(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return ["/"] + ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def normal_path(path: str) -> str | None:
    """Answers an ACL path in its one form, None for one that is not a path."""
    path = re.sub(r"/+", "/", path)
    if path != "/":
        path = path.rstrip("/")
    return path if path.startswith("/") else None


def check_privileges(names: list[str]) -> frozenset[str]:
    for name in names:
        if name not in PRIVILEGES:
            raise refused(privs=f"invalid format - invalid privilege '{name}'\n")
    return frozenset(names)


def no_user(userid: str) -> PveError:
    return PveError(f"no such user ('{userid}')")
