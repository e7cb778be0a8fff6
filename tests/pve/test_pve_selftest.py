"""The region's self-test, and the role that it asks for."""

import shlex
from typing import Any

import pytest
from pve_script import SCHEMA, Error, Script

from zone9.pve.selftest import PRIVILEGES, check_permissions, role_commands, self_test

ALL = dict.fromkeys(PRIVILEGES, 1)
STORAGE = [
    {"storage": "fast", "content": "images,iso", "active": 1},
    {"storage": "slow", "content": "images", "active": 0},
]
ANSWERS: dict[str, Any] = {
    "GET /version": {"version": "9.2.11", "release": "9.2"},
    "GET /access/permissions": {"/": ALL, "/vms": ALL, "/storage": ALL, "/pool": {}},
    "GET /cluster/status": [{"type": "node", "name": "pve1", "online": 1}],
    "GET /nodes/pve1/storage": STORAGE,
}


async def codes(changes: dict[str, Any], **more: Any) -> list[str]:
    async with Script({**ANSWERS, **changes}).client() as client:
        return [finding.code for finding in await self_test(client, **more)]


async def test_a_good_region_has_no_findings() -> None:
    assert await codes({}, storages=("fast",)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"GET /version": {"version": "8.4.1"}}, ["version_unsupported"]),
        ({"GET /access/permissions": {}}, ["no_privileges"]),
        ({"GET /access/permissions": {"/": {}}}, ["no_privileges"]),
        ({"GET /access/permissions": {"/": {**ALL, "VM.Audit": 0}}}, ["privilege_not_propagated"]),
        (
            {"GET /access/permissions": {"/": ALL, "/storage/fast": {"Datastore.Audit": 1}}},
            ["privilege_overridden"],
        ),
        ({"GET /access/permissions": {"/": ALL, "/vms/308": dict.fromkeys(PRIVILEGES, 0)}}, []),
        ({"GET /cluster/status": Error(403, "Permission check failed (/, Sys.Audit)")}, ["pve_denied"]),
        (
            {
                "GET /cluster/status": [
                    {"type": "cluster", "quorate": 0},
                    {"type": "node", "name": "pve1", "online": 1},
                    {"type": "node", "name": "pve2", "online": 0},
                ]
            },
            ["no_quorum", "node_offline"],
        ),
        ({"GET /nodes/pve1/storage": []}, ["no_storage"]),
        ({"GET /version": Error(401, "Authentication failed!")}, ["pve_unauthenticated"]),
    ],
)
async def test_findings(changes: dict[str, Any], expected: list[str]) -> None:
    assert await codes(changes) == expected


async def test_named_storages() -> None:
    assert await codes({}, storages=("slow", "none")) == ["storage_inactive", "storage_missing"]


def test_missing_privileges_are_named() -> None:
    some = {name: 1 for name in PRIVILEGES if name not in {"VM.Clone", "Sys.Syslog"}}
    (finding,) = check_permissions({"/": some})
    assert finding.sentence == "The token lacks on /: VM.Clone, Sys.Syslog."


def test_the_role() -> None:
    role, user, user_acl, token, token_acl = role_commands("zone9@pve", "ctl")
    assert shlex.split(role) == ["pveum", "role", "add", "Zone9", "--privs", " ".join(PRIVILEGES)]
    assert user == "pveum user add zone9@pve"
    assert shlex.split(user_acl) == [
        "pveum",
        "acl",
        "modify",
        "/",
        "--users",
        "zone9@pve",
        "--roles",
        "Zone9",
        "--propagate",
        "1",
    ]
    assert token == "pveum user token add zone9@pve ctl --privsep 1"
    assert shlex.split(token_acl) == [
        "pveum",
        "acl",
        "modify",
        "/",
        "--tokens",
        "zone9@pve!ctl",
        "--roles",
        "Zone9",
        "--propagate",
        "1",
    ]
    assert "'zone9@pve!ctl'" in token_acl, "a shell would expand the exclamation mark"


@pytest.mark.parametrize("user", ["root", "a@pve; reboot", "a b@pve"])
def test_names_that_are_none(user: str) -> None:
    with pytest.raises(ValueError, match="plain names"):
        role_commands(user, "ctl")
    with pytest.raises(ValueError, match="plain names"):
        role_commands("zone9@pve", "a b")


def _known_privileges() -> set[str]:
    """Collects every privilege that Proxmox's API schema names in a permission check."""
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            if len(node) > 2 and node[0] == "perm" and isinstance(node[2], list):
                found.update(node[2])
            for value in node:
                walk(value)

    for methods in SCHEMA.paths.values():
        for method in methods.values():
            walk(method.get("permissions"))
    return found


def test_every_privilege_exists_in_proxmox() -> None:
    # SDN.Use is checked in code, not in the schema: recorded as "(/sdn/zones/localnetwork/vmbr0, SDN.Use)".
    assert set(PRIVILEGES) - _known_privileges() == {"SDN.Use"}
