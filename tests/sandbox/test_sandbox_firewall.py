"""Firewalls: options, rules, sets and aliases, as they are kept and shown."""

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox

FW = "/nodes/pve1/qemu/101/firewall"
NOTHING = "da39a3ee5e6b4b0d3255bfef95601890afd80709"


@pytest.fixture
async def vm_api(sandbox: Sandbox, wide_api: Api) -> Api:
    sandbox.add_vm(101, name="web1")
    return wide_api


async def test_6_2_firewall_1_options_and_their_digest(vm_api: Api) -> None:
    assert await vm_api.ok("GET", f"{FW}/options") == {"digest": NOTHING}
    await vm_api.ok("PUT", f"{FW}/options", raw="enable=1&policy_in=DROP")
    shown = await vm_api.ok("GET", f"{FW}/options")
    assert (shown["enable"], shown["policy_in"]) == (1, "DROP")
    answer = await vm_api.ask("PUT", f"{FW}/options", dhcp=1, digest=NOTHING)
    assert answer.reason == "detected modified configuration - file changed by other user? Try again."
    await vm_api.ok("PUT", f"{FW}/options", dhcp=1, digest=shown["digest"])
    await vm_api.ok("PUT", f"{FW}/options")
    assert (await vm_api.ask("PUT", f"{FW}/options", delete="nosuch")).errors == {
        "delete": "no such option 'nosuch'"
    }


async def test_6_2_firewall_2_new_rules_come_first_and_are_off(vm_api: Api) -> None:
    for port in (1, 2, 3, 4):
        await vm_api.ok(
            "POST", f"{FW}/rules", type="in", action="ACCEPT", proto="tcp", dport=port, enable=int(port > 1)
        )
    rules = await vm_api.ok("GET", f"{FW}/rules")
    assert [(one["dport"], one["enable"], one["pos"]) for one in rules] == [
        ("4", 1, 0),
        ("3", 1, 1),
        ("2", 1, 2),
        ("1", 0, 3),
    ]
    assert (await vm_api.ok("GET", f"{FW}/rules/0"))["pos"] == "0"
    assert (await vm_api.ask("GET", f"{FW}/rules/99")).reason == "no rule at position 99"
    await vm_api.ok("PUT", f"{FW}/rules/0", moveto=3)
    assert [one["dport"] for one in await vm_api.ok("GET", f"{FW}/rules")] == ["3", "2", "4", "1"]
    answer = await vm_api.ask("DELETE", f"{FW}/rules/0", digest=rules[0]["digest"])
    assert answer.status == 500


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        ({"proto": "tcp", "dport": "99999"}, {"dport": "invalid format - invalid port '99999'\n"}),
        ({"dport": "22"}, {"proto": "missing property - 'dport' requires this property"}),
        ({"action": "FOO"}, {"action": "unknown action 'FOO'"}),
        (
            {"source": "10.0.0.0/8,2001:db8::/32"},
            {
                "source": "invalid format - detected mixed ipv4/ipv6 addresses in address list '10.0.0.0/8,2001:db8::/32'\n"
            },
        ),
        ({"macro": "Nosuch"}, {"macro": "unknown macro 'Nosuch'"}),
        ({"source": "+nosuch"}, {"source": "no such ipset 'nosuch'"}),
        ({"source": "nosuch"}, {"source": "no such alias 'nosuch'"}),
        ({"type": "forward"}, {"type": "invalid rule type 'forward' for rule_env 'vm'"}),
        ({"iface": "eth0"}, {"iface": "value does not match the regex pattern 'net\\d+'"}),
        ({"source": "10.0.0.5-10.0.0.1"}, None),
        ({"type": "group", "action": "nosuch"}, {}),
        ({"enable": 2}, {}),
        ({"comment": "a\nb"}, {}),
    ],
)
async def test_6_2_firewall_3_what_a_rule_may_say(
    vm_api: Api, rule: dict[str, object], errors: dict[str, str] | None
) -> None:
    answer = await vm_api.ask("POST", f"{FW}/rules", **{"type": "in", "action": "ACCEPT", **rule})
    assert answer.status == (200 if errors == {} else 400)
    if errors is not None:
        assert answer.errors == errors
    if "comment" in rule:
        assert (await vm_api.ok("GET", f"{FW}/rules"))[0]["comment"] == "a"


async def test_6_2_firewall_4_sets_and_aliases(vm_api: Api) -> None:
    await vm_api.ok("POST", f"{FW}/ipset", name="a" * 64)
    await vm_api.ok("POST", f"{FW}/ipset", name="web")
    assert (await vm_api.ask("POST", f"{FW}/ipset", name="web")).errors == {
        "name": "IPSet 'web' already exists"
    }
    assert (await vm_api.ask("POST", f"{FW}/aliases", name="x", cidr="10.0.0.1")).status == 400
    await vm_api.ok("POST", f"{FW}/ipset/web", cidr="10.2.0.5/16")
    assert [one["cidr"] for one in await vm_api.ok("GET", f"{FW}/ipset/web")] == ["10.2.0.0/16"]
    answer = await vm_api.ask("POST", f"{FW}/ipset/web", cidr="0.0.0.0/0")
    assert answer.errors == {"cidr": "a zero prefix is not allowed in ipset entries"}
    assert (await vm_api.ask("POST", f"{FW}/ipset/web", cidr="nonsense")).reason == "no such alias 'nonsense'"
    await vm_api.ok("DELETE", f"{FW}/ipset/web/10.9.0.0%2F16")
    assert (await vm_api.ask("DELETE", f"{FW}/ipset/web")).reason == "IPSet 'web' is not empty"
    await vm_api.ok("DELETE", f"{FW}/ipset/web", force=1)

    await vm_api.ok("POST", f"{FW}/aliases", name="Home", cidr="192.168.1.0/24")
    assert (await vm_api.ask("POST", f"{FW}/aliases", name="home", cidr="10.0.0.1")).errors == {
        "name": "alias 'home' already exists"
    }
    await vm_api.ok("POST", f"{FW}/rules", type="in", action="ACCEPT", source="home", enable=1)
    await vm_api.ok("DELETE", f"{FW}/aliases/HOME")
    assert (await vm_api.ok("GET", f"{FW}/rules"))[0]["errors"] == {"source": "no such alias 'home'"}


async def test_6_2_firewall_5_a_clone_has_it_and_a_deleted_vm_has_not(sandbox: Sandbox, vm_api: Api) -> None:
    template = "/nodes/pve1/qemu/9000/firewall"
    await vm_api.ok("PUT", f"{template}/options", enable=1)
    await vm_api.ok("POST", f"{template}/ipset", name="ipfilter-net0")
    await vm_api.ok("POST", f"{template}/ipset/ipfilter-net0", cidr="10.99.0.50")
    await vm_api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=102)
    clone = "/nodes/pve1/qemu/102/firewall"
    assert (await vm_api.ok("GET", f"{clone}/options"))["enable"] == 1
    assert (await vm_api.ok("GET", f"{clone}/ipset/ipfilter-net0"))[0]["cidr"] == "10.99.0.50"
    await vm_api.ok("DELETE", f"{clone}/ipset/ipfilter-net0", force=1)
    assert len(await vm_api.ok("GET", f"{template}/ipset")) == 1, "a copy, not the same"
    await vm_api.task("DELETE", "/nodes/pve1/qemu/102")
    assert 102 not in sandbox.cluster.firewalls


async def test_6_2_firewall_6_a_vm_that_is_not_there_gets_a_file(vm_api: Api, sandbox: Sandbox) -> None:
    path = "/nodes/pve1/qemu/999/firewall"
    assert await vm_api.ok("GET", f"{path}/options") == {"digest": NOTHING}
    await vm_api.ok("PUT", f"{path}/options", enable=1)
    await vm_api.ok("POST", f"{path}/rules", type="in", action="ACCEPT", enable=1)
    assert len(sandbox.cluster.firewalls[999].rules) == 1


async def test_6_2_firewall_7_rights_the_cluster_and_the_log(sandbox: Sandbox, vm_api: Api, api: Api) -> None:
    none = Api(sandbox, sandbox.accounts.add_token("none@pve!x"))
    assert (await none.ask("GET", f"{FW}/rules")).reason == "Permission check failed (/vms/101, VM.Audit)"
    await none.close()
    writer = Api(sandbox, sandbox.accounts.add_token("writer@pve!x"))
    for who in ("writer@pve", "writer@pve!x"):
        sandbox.accounts.grant("/", who, frozenset({"VM.Config.Network"}))
    await writer.ok("POST", f"{FW}/rules", type="in", action="ACCEPT")
    await writer.close()
    await api.ok("GET", "/cluster/firewall/options")
    answer = await api.ask("PUT", "/cluster/firewall/options", enable=1)
    assert answer.reason == "Permission check failed (/, Sys.Modify)"
    root = Api(sandbox, sandbox.accounts.add_token("root@pam!all", privsep=False))
    await root.ok("PUT", "/cluster/firewall/options", enable=1)
    assert (await vm_api.ok("GET", f"{FW}/log"))[0]["t"] == "unable to open file - No such file or directory"
    await root.ok("POST", "/cluster/firewall/groups", group="web")
    await root.ok("POST", "/cluster/firewall/groups/web", type="in", action="ACCEPT", proto="tcp", dport=80)
    assert (
        await root.ask("DELETE", "/cluster/firewall/groups/web")
    ).reason == "Security group 'web' is not empty"
    await root.close()
