"""Alarms: shown to whom they concern, counted while open, and closed by whoever has seen them."""

from api_kit import SERVER
from api_world import Api
from zone9.model.facts import Message
from zone9.store import alarms

TWICE = Message("token_claimed_twice", "two have claimed it")


async def sound(api: Api, resource: str, message: Message = TWICE) -> None:
    async with api.world.zone9.database.begin() as connection:
        await alarms.sound(connection, resource, message)


async def test_an_alarm_is_listed_counted_and_acknowledged(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    for _ in range(3):
        await sound(api, made["id"])
    turkish = {"Accept-Language": "tr"}
    [shown] = (await api.client.get("/v1/alarms", headers=turkish)).json()["items"]
    assert (shown["kind"], shown["times"], shown["resource_name"]) == ("token_claimed_twice", 3, "web1")
    assert "iki taraf" in shown["text"]
    path = f"/v1/alarms/{shown['id']}/acknowledge"
    assert (await api.client.post(path, headers=await api.token_of("member"))).status_code == 403
    seen = await api.client.post(path)
    assert seen.json()["acknowledged_by"] == "token:first"
    again = await api.client.post(path)
    assert again.json()["acknowledged_at"] == seen.json()["acknowledged_at"]
    assert (await api.client.get("/v1/alarms")).json()["items"] == []
    await sound(api, made["id"])
    times = [one["times"] for one in (await api.client.get("/v1/alarms?all=true")).json()["items"]]
    assert times == [1, 3], "the same again opens another"


async def test_another_projects_alarms_do_not_exist(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    await sound(api, made["id"])
    [shown] = (await api.client.get("/v1/alarms")).json()["items"]
    await api.project("prj_other", "other")
    stranger = await api.token_of("owner", project="prj_other")
    assert (await api.client.get("/v1/alarms", headers=stranger)).json()["items"] == []
    path = f"/v1/alarms/{shown['id']}/acknowledge"
    assert (await api.client.post(path, headers=stranger)).status_code == 404
