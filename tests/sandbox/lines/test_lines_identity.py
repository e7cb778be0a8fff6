"""Lines of the measured facts about identity and the self-test (6.2, identity and self-test)."""

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox

VM = "/nodes/pve1/qemu/101"
UUID = "AAAAAAAA-bbbb-4ccc-8ddd-eeeeeeeeeeee"


@pytest.fixture
async def vm_api(sandbox: Sandbox, api: Api) -> Api:
    sandbox.add_vm(101, name="web1", disk="64M")
    return api


async def test_6_2_identity_3_a_uuid_as_it_was_given(sandbox: Sandbox, vm_api: Api) -> None:
    await vm_api.ok("PUT", f"{VM}/config", smbios1=f"uuid={UUID}")
    assert (await vm_api.config(101))["smbios1"] == f"uuid={UUID}"
    sandbox.add_vm(102)
    await vm_api.ok("PUT", "/nodes/pve1/qemu/102/config", smbios1=f"uuid={UUID}")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (f"uuid={UUID.replace('-', '')}", 400),
        (f"uuid={UUID},uuid={UUID}", 400),
        (f"uuid={UUID},serial=YWI,base64=1", 200),
        (f"uuid={UUID},serial=a_b-,base64=1", 400),
        (f"uuid={UUID},serial=,base64=1", 400),
        (f"uuid={UUID},serial=a:b c", 400),
    ],
)
async def test_6_2_identity_3_what_is_taken(vm_api: Api, line: str, status: int) -> None:
    assert (await vm_api.ask("PUT", f"{VM}/config", smbios1=line)).status == status


@pytest.mark.parametrize(
    ("name", "status"), [("a" * 63, 200), ("a.B-9", 200), ("9a", 200), ("a-", 400), ("", 400), ("a_b", 400)]
)
async def test_6_2_identity_4_names(vm_api: Api, name: str, status: int) -> None:
    assert (await vm_api.ask("PUT", f"{VM}/config", name=name)).status == status


async def test_6_2_identity_4_a_vm_without_a_name(sandbox: Sandbox, api: Api) -> None:
    await api.task("POST", "/nodes/pve1/qemu", vmid=103)
    row = next(row for row in await api.ok("GET", "/cluster/resources", type="vm") if row["vmid"] == 103)
    assert row["name"] == "VM 103"


async def test_6_2_identity_6_registered_tags(sandbox: Sandbox, api: Api) -> None:
    sandbox.cluster.options["registered-tags"] = "tmpl"
    sandbox.vms[9000].file.put("tags", "tmpl")
    assert await api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=101) == "OK"
    await api.ok("PUT", f"{VM}/config", tags="tmpl;web")
    answer = await api.ask("PUT", f"{VM}/config", tags="web")
    assert (answer.status, answer.reason) == (
        403,
        "Permission check failed (/, Sys.Modify for modifying tag 'tmpl')",
    )


async def test_6_2_self_test_3_the_rights_of_others(sandbox: Sandbox, api: Api) -> None:
    sandbox.accounts.add_token("other@pve!x")
    sandbox.accounts.grant("/vms", "other@pve", "PVEVMUser")
    found = await api.ok("GET", "/access/permissions", userid="other@pve")
    assert found["/vms"]["VM.Console"] == 1


async def test_6_2_self_test_5_what_sys_audit_shows(sandbox: Sandbox, api: Api) -> None:
    for path in ("/access/users", "/access/acl", "/access/roles", "/access/users/root@pam"):
        await api.ok("GET", path)
    answer = await api.ask("GET", "/access/users/root@pam/token")
    assert (answer.status, answer.reason) == (403, "Permission check failed")
    none = Api(sandbox, sandbox.accounts.add_token("none@pve!x"))
    assert await none.ok("GET", "/access/roles")
    assert await none.ok("GET", "/access/domains")
    for path in ("/access/users", "/access/groups", "/access/acl"):
        rows = await none.ok("GET", path)
        assert [row for row in rows if row.get("userid") != "none@pve"] == []
    assert (await api.ask("POST", "/access/acl", path="/", roles="x")).status == 501
    answer = await api.ask("PUT", "/access/acl", path="/", roles="PVEAuditor", users="z9@pve")
    assert answer.reason == "Permission check failed (/, Permissions.Modify)"
    await none.close()


async def test_6_2_self_test_6_what_needs_sys_audit_and_what_does_not(sandbox: Sandbox, api: Api) -> None:
    none = Api(sandbox, sandbox.accounts.add_token("none@pve!x"))
    for path in (
        "/cluster/status",
        "/cluster/ha/status/current",
        "/nodes/pve1/status",
        "/nodes/pve1/dns",
        "/nodes/pve1/time",
    ):
        assert (await none.ask("GET", path)).status == 403, path
        await api.ok("GET", path)
    for path in (
        "/version", "/nodes", "/cluster/nextid", "/cluster", "/nodes/pve1/capabilities/qemu/cpu",
        "/nodes/pve1/subscription", "/nodes/pve1/certificates/info",
    ):  # fmt: skip
        await none.ok("GET", path)
    assert set(await none.ok("GET", "/cluster/options")) <= {"allowed-tags"}
    assert (await api.ask("GET", "/storage/vmstore")).status == 403
    await api.ok("GET", "/storage")
    await api.ok("GET", "/nodes/pve1/storage/vmstore/status")
    await none.close()


async def test_6_2_self_test_7_networks_and_storages(sandbox: Sandbox, api: Api) -> None:
    none = Api(sandbox, sandbox.accounts.add_token("none@pve!x"))
    assert await none.ok("GET", "/nodes/pve1/network") == []
    for kind in ("any_bridge", "any_local_bridge"):
        assert [row["iface"] for row in await api.ok("GET", "/nodes/pve1/network", type=kind)] == ["vmbr0"]
    answer = await api.ask("GET", "/nodes/pve1/storage", storage="nosuch")
    assert (answer.status, answer.errors) == (400, {"storage": "No such storage."})
    assert "formats" in (await api.ok("GET", "/nodes/pve1/storage", format=1))[0]
    await none.close()


async def test_6_2_self_test_10_network_rows(sandbox: Sandbox) -> None:
    auditor = Api(sandbox, sandbox.accounts.add_token("root@pam!all", privsep=False))
    rows = [row for row in await auditor.ok("GET", "/cluster/resources") if row["type"] == "network"]
    assert {row["id"] for row in rows} == {"network/pve1/zone/localnetwork", "network/pve2/zone/localnetwork"}
    await auditor.close()


async def test_6_2_pools_1_members(sandbox: Sandbox) -> None:
    root = Api(sandbox, sandbox.accounts.add_token("root@pam!all", privsep=False))
    sandbox.add_vm(101)
    for pool in ("pa", "pb"):
        await root.ok("POST", "/pools", poolid=pool)
    await root.ok("PUT", "/pools/pa", vms=101)
    assert "already a pool member" in (await root.ask("PUT", "/pools/pa", vms=101)).reason
    answer = await root.ask("PUT", "/pools/pb", vms=101)
    assert (answer.status, "belongs already to pool 'pa' and 'allow-move' is not set" in answer.reason) == (
        500,
        True,
    )
    assert "is not a pool member" in (await root.ask("PUT", "/pools/pb", vms=101, delete=1)).reason
    await root.ok("PUT", "/pools/pb", vms=999)
    assert isinstance(await root.ok("GET", "/pools", poolid="pa"), list)
    assert isinstance(await root.ok("GET", "/pools/pa"), dict)
    assert (await root.ask("GET", "/pools/nosuch")).status == 500
    await root.task("DELETE", "/nodes/pve1/qemu/101")
    assert (await root.ok("GET", "/pools/pa"))["members"] == []
    await root.close()
