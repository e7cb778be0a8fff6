"""SDN: what is not configured, what is written and not yet applied, and what is refused."""

from collections.abc import AsyncIterator

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox


@pytest.fixture
async def root(sandbox: Sandbox) -> AsyncIterator[Api]:
    api = Api(sandbox, sandbox.accounts.add_token("root@pam!all", privsep=False))
    yield api
    await api.close()


async def test_6_2_sdn_2_unconfigured(root: Api) -> None:
    for path in ("/cluster/sdn/zones", "/cluster/sdn/vnets", "/nodes/pve1/sdn/zones"):
        assert await root.ok("GET", path) == []
    assert [one["ipam"] for one in await root.ok("GET", "/cluster/sdn/ipams")] == ["pve"]
    answer = await root.ask("GET", "/nodes/pve1/sdn/zones/localnetwork")
    assert answer.errors == {"zone": "value may only be 8 characters long"}
    assert [one["name"] for one in await root.ok("GET", "/nodes/pve1/sdn/zones/localnetwork/bridges")] == [
        "vmbr0"
    ]


async def test_6_2_sdn_2_the_token_makes_nothing(api: Api) -> None:
    answer = await api.ask("POST", "/cluster/sdn/zones", zone="z1", type="simple")
    assert (answer.status, answer.reason) == (403, "Permission check failed (/sdn/zones, SDN.Allocate)")


async def test_6_2_sdn_2_what_is_written_waits_for_an_apply(api: Api, root: Api) -> None:
    await root.ok("POST", "/cluster/sdn/zones", zone="z1", type="simple")
    await root.ok("POST", "/cluster/sdn/vnets", vnet="v1", zone="z1", alias="tenant")
    pending = (await root.ok("GET", "/cluster/sdn/vnets", pending=1))[0]
    assert (pending["state"], pending["pending"]) == ("new", {"zone": "z1", "alias": "tenant"})
    assert await root.ok("GET", "/cluster/sdn/vnets", running=1) == []
    await api.ok("POST", "/nodes/pve1/qemu", vmid=101, net0="virtio,bridge=v1")

    upid = await root.ok("PUT", "/cluster/sdn")
    assert (await root.status(upid))["exitstatus"] == "OK"
    assert "you need ifupdown2 to reload network configuration" in await root.log(upid)
    assert [one["vnet"] for one in await root.ok("GET", "/cluster/sdn/vnets", running=1)] == ["v1"]
    assert "state" not in (await root.ok("GET", "/cluster/sdn/vnets", pending=1))[0]
    await root.ok("DELETE", "/cluster/sdn/vnets/v1")
    assert (await root.ok("GET", "/cluster/sdn/vnets", pending=1))[0]["state"] == "deleted"


async def test_6_2_sdn_2_errors_are_nested(root: Api) -> None:
    await root.ok("POST", "/cluster/sdn/zones", zone="zz", type="simple")
    answer = await root.ask("POST", "/cluster/sdn/vnets", vnet="v2", zone="zz", tag=7)
    assert answer.message == (
        "create sdn vnet object failed: 400 Parameter verification failed.\ntag: vlan tag is not allowed on simple zone\n"
    )
    assert answer.errors == {}
    await root.ok("POST", "/cluster/sdn/vnets", vnet="v2", zone="zz")
    assert "zone zz is used by vnet v2" in (await root.ask("DELETE", "/cluster/sdn/zones/zz")).reason
    await root.ok("POST", "/cluster/sdn/vnets/v2/subnets", subnet="10.9.0.0/24", type="subnet")
    assert (
        "Can't delete vnet if subnets exists" in (await root.ask("DELETE", "/cluster/sdn/vnets/v2")).message
    )
    await root.ok("DELETE", "/cluster/sdn/vnets/v2/subnets/zz-10.9.0.0-24")
    await root.ok("DELETE", "/cluster/sdn/vnets/v2")
    await root.ok("DELETE", "/cluster/sdn/zones/zz")
