"""Guests that zone9 did not make: shown without their secrets, given to a project, and taken over as they are."""

from typing import Any

import pytest

from api_kit import SERVER
from api_world import Api
from zone9.pve.selftest import PRIVILEGES

STRANGER = {"name": "old-db", "tags": "prod;db", "cipassword": "hunter2", "description": "root password: x"}


async def stranger(api: Api, vmid: int = 7001, **details: Any) -> None:
    api.world.sandbox.operator.create_stranger(vmid, **{**STRANGER, **details})
    await api.world.sweep()
    await api.world.sweep()


async def listed(api: Api, query: str = "", **headers: str) -> list[dict[str, Any]]:
    answer = await api.client.get(f"/v1/guests{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


async def test_every_guest_is_shown_and_no_config(api: Api) -> None:
    await stranger(api)
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    found = await api.world.settle(made["id"])
    await api.world.sweep()
    by_vmid = {one["vmid"]: one for one in await listed(api)}
    assert by_vmid.keys() == api.world.sandbox.vms.keys()
    old, ours = by_vmid[7001], by_vmid[found["facts"]["vmid"]]
    assert (old["origin"], old["server"], old["project"], old["tags"]) == (
        "adopted",
        None,
        None,
        ["prod", "db"],
    )
    assert (ours["origin"], ours["server_name"], ours["project"]) == ("managed", "web1", "default")
    shown = (await api.client.get("/v1/guests/r1/7001")).text + (await api.client.get("/v1/guests")).text
    assert "hunter2" not in shown
    assert "password" not in shown


async def test_a_stranger_at_a_servers_number_is_not_shown_as_the_server(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    vmid = (await api.world.settle(made["id"]))["facts"]["vmid"]
    api.world.sandbox.operator.forget(vmid)
    await stranger(api, vmid)
    shown = (await api.client.get(f"/v1/guests/r1/{vmid}")).json()
    assert (shown["origin"], shown["server"], shown["project"]) == ("adopted", None, None)


async def test_filters_pages_and_groups(api: Api) -> None:
    for vmid, tags in ((7001, "prod;db"), (7002, "prod"), (7003, "")):
        await stranger(api, vmid, tags=tags, name=f"old-{vmid}")
    everyone = [one["vmid"] for one in await listed(api)]
    assert everyone == sorted([9000, 7001, 7002, 7003])
    assert [one["vmid"] for one in await listed(api, "?tag=prod")] == [7001, 7002]
    assert [one["vmid"] for one in await listed(api, "?q=7003")] == [7003]
    assert [one["vmid"] for one in await listed(api, "?q=OLD&region=r1&origin=adopted")] == [7001, 7002, 7003]
    assert await listed(api, "?region=nosuch") == []
    first = (await api.client.get("/v1/guests?page_size=2")).json()
    rest = (await api.client.get(f"/v1/guests?page_size=2&page_token={first['next_page_token']}")).json()
    assert [one["vmid"] for one in first["items"] + rest["items"]] == everyone
    assert rest["next_page_token"] is None
    groups = (await api.client.get("/v1/guests/groups?by=tag&q=old")).json()["items"]
    assert {one["key"]: one["guests"] for one in groups} == {"db": 1, "prod": 2, None: 1}
    [region] = (await api.client.get("/v1/guests/groups")).json()["items"]
    assert (region["region"], region["guests"], region["managed"], region["not_seen"]) == ("r1", 4, 0, 0)
    for bad in ("?nosuch=1", "?page_token=x", "?origin=mine", "?page_token=reg_1_99999999999"):
        assert (await api.client.get(f"/v1/guests{bad}")).status_code in {400, 422}, bad


async def test_a_status_that_no_good_pass_confirms_is_unknown(api: Api) -> None:
    await stranger(api)
    assert (await api.client.get("/v1/guests/r1/7001")).json()["status"] == "stopped"
    await api.world.pass_time(61)
    assert (await api.client.get("/v1/guests/r1/7001")).json()["status"] == "unknown"
    refused = await api.client.post("/v1/guests/r1/7001/manage", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "link_not_read")
    await api.world.sweep()
    api.world.sandbox.operator.forget(7001)
    await api.world.sweep()
    assert (await api.client.get("/v1/guests/r1/7001")).json()["status"] == "missing"


async def test_an_administrator_says_whose_a_guest_is(api: Api) -> None:
    await stranger(api)
    await api.client.post("/v1/projects", json={"name": "shop"})
    member = await api.token_of("viewer")
    assert await listed(api, **member) == []
    given = await api.client.patch("/v1/guests/r1/7001", json={"project": "default"})
    assert (given.status_code, given.json()["project"]) == (200, "default")
    assert [one["vmid"] for one in await listed(api, **member)] == [7001]
    entry = (await api.client.get("/v1/audit", params={"order": "newest", "page_size": 1})).json()["items"][0]
    told = {key: entry[key] for key in ("action", "kind", "name", "actor")}
    assert told == {"action": "attribute", "kind": "guest", "name": "r1/7001", "actor": "token:first"}
    for role in ("member", "operator", "owner"):
        headers = await api.token_of(role)
        refused = await api.client.patch("/v1/guests/r1/7001", json={"project": None}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    moved = await api.client.patch("/v1/guests/r1/7001", json={"project": "shop"})
    assert moved.json()["project"] == "shop"
    assert (await api.client.get("/v1/guests/r1/7001", headers=member)).status_code == 404
    wrong = await api.client.patch("/v1/guests/r1/7001", json={"project": "nosuch"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/project")
    nobody = await api.client.patch("/v1/guests/r1/7001", json={"project": None})
    assert nobody.json()["project"] is None
    assert api.world.sandbox.vms[7001].config["description"] == STRANGER["description"]


async def test_a_servers_vm_cannot_be_given_away(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    vmid = (await api.world.settle(made["id"]))["facts"]["vmid"]
    await api.world.sweep()
    refused = await api.client.patch(f"/v1/guests/r1/{vmid}", json={"project": None})
    assert (refused.status_code, refused.json()["code"]) == (409, "guest_managed")


@pytest.mark.parametrize("vmid", ["0", "x", "99", "1e3", "99999999999", "-1"])
async def test_what_is_no_guest(api: Api, vmid: str) -> None:
    assert (await api.client.get(f"/v1/guests/r1/{vmid}")).status_code == 404


async def test_taking_over_and_letting_go_by_the_api(api: Api) -> None:
    await stranger(api)
    before = dict(api.world.sandbox.vms[7001].config)
    writes = len(api.world.writes())
    rehearsed = (await api.client.post("/v1/guests/r1/7001/manage?dry_run=true")).json()
    assert [one["step"] for one in rehearsed["plan"]] == ["link"]
    assert (await api.client.get("/v1/guests/r1/7001")).json()["project"] is None, (
        "a rehearsal changes nothing"
    )
    made = await api.client.post("/v1/guests/r1/7001/manage", json={"name": "db"})
    assert made.status_code == 202, made.text
    found = await api.world.settle(made.json()["resource"]["id"])
    assert (found["convergence"], found["spec"]["power"]) == ("applied", "off")
    assert (await api.client.get("/v1/guests/r1/7001")).json()["server_name"] == "db"
    again = await api.client.post("/v1/guests/r1/7001/manage", json={"name": "other"})
    assert (again.status_code, again.json()["code"]) == (409, "link_taken")
    freed = await api.client.post("/v1/servers/db/release")
    assert (await api.world.settle(freed.json()["resource"]["id"]))["phase"] == "deleted"
    assert api.world.writes()[writes:] == []
    assert dict(api.world.sandbox.vms[7001].config) == before
    assert (await api.client.get("/v1/guests/r1/7001")).json()["origin"] == "adopted"


async def test_who_may_take_over_what(api: Api) -> None:
    await stranger(api)
    operator, member = await api.token_of("operator"), await api.token_of("member")
    path = "/v1/guests/r1/7001/manage"
    assert (await api.client.post(path, headers=operator)).status_code == 404, "it is nobody's"
    await api.client.patch("/v1/guests/r1/7001", json={"project": "default"})
    assert (await api.client.post(path, headers=member)).status_code == 403
    bad = await api.client.post(path, json={"name": "Not A Label"}, headers=operator)
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/name")
    assert (await api.client.post(path, headers=operator)).status_code == 202


async def test_how_a_pass_went_is_shown_with_what_speaks_against_it(api: Api) -> None:
    missing = await api.client.get("/v1/regions/r1/sweep")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    await stranger(api)
    sweep = (await api.client.get("/v1/regions/r1/sweep")).json()
    assert (sweep["frozen"], sweep["guests"], sweep["nodes"], sweep["passes"]) == ([], 2, 2, 2)
    assert sweep["good_at"] == sweep["at"]
    api.world.sandbox.accounts.roles["Zone9"] = frozenset(PRIVILEGES) - {"VM.Audit"}
    api.world.sandbox.accounts.changed()
    for _ in range(6):
        await api.world.sweep()
    sweep = (await api.client.get("/v1/regions/r1/sweep", headers={"Accept-Language": "tr"})).json()
    assert "rights_changed" in {one["code"] for one in sweep["frozen"]}
    assert sweep["good_at"] < sweep["at"]
    metrics = (await api.client.get("/metrics")).text
    assert 'zone9_pass_frozen{region="r1"} 0.0' not in metrics
    assert 'zone9_passes{region="r1"} 8.0' in metrics


async def test_a_stale_page_that_is_opened_is_measured_once_within_a_budget(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    await api.world.settle(made["id"])

    async def opened() -> dict[str, Any]:
        return dict((await api.client.get("/v1/servers/web1", headers=await api.token_of("viewer"))).json())

    assert (await opened())["verifying"] is None, "the reading is fresh"
    await api.world.pass_time(61)
    first = await opened()
    assert first["state"]["health"] == "unknown"
    assert first["verifying"] is not None
    assert (await opened())["verifying"] == first["verifying"]
    job = await api.world.job(first["verifying"])
    assert (job["kind"], job["actor"], job["status"]) == ("verify", "system", "queued")
    await api.world.zone9.measuring.run(first["verifying"])
    fresh = await opened()
    assert (fresh["state"]["health"], fresh["verifying"]) == ("ok", None)
    await api.world.pass_time(61)
    api.world.sandbox.faults.add("node_down")
    again = await opened()
    assert again["verifying"] not in {None, first["verifying"]}
    await api.world.zone9.measuring.run(again["verifying"])
    assert (await opened())["verifying"] is None, (
        "it could not be measured; it is not asked again at each look"
    )
