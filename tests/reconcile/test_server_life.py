"""A server's life against the sandbox: what is asked is what Proxmox has, and both numbers say so."""

from world import World


async def test_a_server_is_made_started_and_read_back(world: World) -> None:
    answer = await world.server(tags=["web"])
    found = await world.settle(answer.resource)
    assert (found["intent_version"], found["applied_version"], found["convergence"]) == (1, 1, "applied")
    vm = world.sandbox.vms[found["facts"]["vmid"]]
    assert vm.running
    assert found["observed"]["uuid"] == found["facts"]["uuid"]
    job = await world.job(answer.job)
    assert job["status"] == "succeeded"
    proofs = await world.all("SELECT step, upid, exit_text FROM proofs ORDER BY id")
    assert [one["step"] for one in proofs] == ["clone", "configure", "resize", "start"]
