"""The demo's witness says of every single thing that it is not as asked."""

import sys
from pathlib import Path
from typing import Any

import pytest

from zone9.cli import witness

ASKED = {"name": "web1", "power": "on", "cores": 2, "memory_mib": 128, "tags": ["demo"],
         "ssh_key": "ssh-ed25519 AAAA demo", "cidr": "10.9.0.0/24"}  # fmt: skip
CONFIG = {"name": "web1", "cores": "2", "memory": "128", "tags": "other;demo", "ipconfig0": "ip=10.9.0.2/24",
          "smbios1": "base64=1,uuid=1b2c", "sshkeys": "ssh-ed25519%20AAAA%20demo%0A"}  # fmt: skip


def vm(config: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    made = {"node": "pve1", "template": False, "status": "running", "pending": {}, "pending_delete": []}
    return {**made, "config": {**CONFIG, **(config or {})}, **more}


def test_what_is_as_it_was_asked_has_no_problem() -> None:
    assert witness.problems(ASKED, [vm({"name": "theirs"}), vm()]) == []


@pytest.mark.parametrize(
    ("config", "more", "says"),
    [
        ({"name": "web2"}, {}, "0 VMs have its name"),
        ({"cores": "1"}, {}, "2 cores"),
        ({"memory": "512"}, {}, "128 MiB"),
        ({"tags": "demonic"}, {}, "tags demo"),
        ({"ipconfig0": "ip=dhcp".replace("dhcp", "10.8.0.2/24")}, {}, "10.9.0.0/24"),
        ({"ipconfig0": ""}, {}, "it has none"),
        ({"smbios1": "serial=x"}, {}, "no uuid"),
        ({"sshkeys": ""}, {}, "SSH key"),
        ({}, {"status": "stopped"}, "power on"),
        ({}, {"template": True}, "not a VM"),
        ({}, {"pending": {"cores": "2"}}, "pending"),
        ({}, {"pending_delete": ["tags"]}, "pending"),
    ],
)
def test_each_thing_that_is_wanting_is_named(config: dict[str, str], more: dict[str, Any], says: str) -> None:
    found = witness.problems(ASKED, [vm(config, **more)])

    assert len(found) == 1
    assert says in found[0]


def test_two_of_one_name_are_wrong() -> None:
    assert witness.problems(ASKED, [vm(), vm()]) == ["2 VMs have its name"]


def test_it_imports_the_standard_library_alone() -> None:
    source = Path(witness.__file__).read_text()
    imported = {
        line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))
    }

    assert imported <= sys.stdlib_module_names
