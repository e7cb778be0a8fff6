"""Resources over HTTP: what a client may rely on (design section 7)."""

from api_kit import SERVER
from api_world import Api


async def test_a_create_answers_202_with_a_job_that_ends_when_it_was_read_back(api: Api) -> None:
    answer = await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{body['job']['id']}"
    assert body["resource"]["intent_version"] == 1
    assert body["resource"]["applied_version"] is None
    await api.world.settle(body["resource"]["id"])
    job = (await api.client.get(answer.headers["location"])).json()
    assert job["status"] == "succeeded"
    assert [one["status"] for one in job["steps"]] == ["done"] * len(job["steps"])
    shown = (await api.client.get("/v1/servers/web1")).json()
    assert shown["applied_version"] == 1
    assert shown["state"]["chip"] == "applied"


async def test_nothing_to_apply_is_200_without_a_job(api: Api) -> None:
    answer = await api.client.post(
        "/v1/plans", json={"name": "big", "spec": {"cores": 4, "memory_mib": 8192, "disk_gib": 80}}
    )
    assert answer.status_code == 200
    assert answer.json()["job"] is None
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    await api.world.settle(made["resource"]["id"])
    same = await api.client.patch("/v1/servers/web1", json={"spec": {"power": "on"}})
    assert (same.status_code, same.json()["job"]) == (200, None)


async def test_a_stale_etag_is_412_with_the_current_one_and_the_difference(api: Api) -> None:
    first = await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})
    etag = first.headers["etag"]
    await api.client.patch(
        "/v1/servers/web1", json={"spec": {"tags": ["theirs"]}}, headers={"If-Match": etag}
    )
    stale = await api.client.patch(
        "/v1/servers/web1", json={"spec": {"tags": ["mine"]}}, headers={"If-Match": etag}
    )
    assert stale.status_code == 412
    problem = stale.json()
    assert problem["code"] == "etag_mismatch"
    assert problem["diff"] == {"tags": {"yours": ["mine"], "current": ["theirs"]}}
    current = stale.headers["etag"]
    assert current == (await api.client.get("/v1/servers/web1")).headers["etag"]
    again = await api.client.patch(
        "/v1/servers/web1", json={"spec": {"tags": ["mine"]}}, headers={"If-Match": current}
    )
    assert again.status_code == 202


async def test_the_same_key_and_body_replay_the_first_answer(api: Api) -> None:
    key = {"Idempotency-Key": "abc"}
    first = await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER}, headers=key)
    second = await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER}, headers=key)
    assert (first.status_code, second.status_code) == (202, 202)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.content == first.content
    assert second.headers["location"] == first.headers["location"]
    other = await api.client.post("/v1/servers", json={"name": "web2", "spec": SERVER}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_a_retried_patch_after_a_lost_reply_replays_and_does_not_conflict(api: Api) -> None:
    made = await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})
    headers = {"If-Match": made.headers["etag"], "Idempotency-Key": "k"}
    first = await api.client.patch("/v1/servers/web1", json={"spec": {"tags": ["a"]}}, headers=headers)
    again = await api.client.patch("/v1/servers/web1", json={"spec": {"tags": ["a"]}}, headers=headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_dry_run_changes_nothing_and_names_each_changes_class(api: Api) -> None:
    rehearsed = await api.client.post("/v1/servers?dry_run=true", json={"name": "web1", "spec": SERVER})
    assert rehearsed.status_code == 200
    assert [one["step"] for one in rehearsed.json()["plan"]] == ["place"]
    assert (await api.client.get("/v1/servers/web1")).status_code == 404
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    await api.world.settle(made["resource"]["id"])
    change = {"spec": {"memory_mib": 1024, "tags": ["x"]}}
    plan = (await api.client.patch("/v1/servers/web1?dry_run=true", json=change)).json()
    assert {one["field"]: one["class"] for one in plan["diffs"]} == {
        "memory_mib": "pending_restart",
        "tags": "hot",
    }
    assert (await api.client.get("/v1/servers/web1")).json()["intent_version"] == 1


async def test_lists_go_by_pages(api: Api) -> None:
    for number in range(5):
        await api.client.post(
            "/v1/plans", json={"name": f"p{number}", "spec": {"cores": 1, "memory_mib": 512, "disk_gib": 1}}
        )
    seen, token = [], None
    while True:
        query = "/v1/plans?page_size=2" + (f"&page_token={token}" if token else "")
        page = (await api.client.get(query)).json()
        seen += [one["name"] for one in page["items"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert seen == ["small", "p0", "p1", "p2", "p3", "p4"]
    assert (await api.client.get("/v1/plans?page_sise=2")).json()["code"] == "unknown_parameter"
    assert (await api.client.get("/v1/plans?page_size=1001")).status_code == 400


async def test_wrong_fields_are_named_by_pointers(api: Api) -> None:
    answer = await api.client.post(
        "/v1/servers",
        json={"name": "web1", "spec": {**SERVER, "networks": [{"network": "lan", "address": "x"}]}},
    )
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0]["pointer"] == "/spec/networks/0/address"
    unknown = await api.client.post(
        "/v1/servers", json={"name": "web1", "spec": {**SERVER, "image": "nosuch"}}
    )
    assert unknown.json()["errors"][0] == {
        "pointer": "/spec/image", "code": "reference_not_found", "detail": "there is no image named nosuch"
    }  # fmt: skip
    turkish = await api.client.post(
        "/v1/servers",
        json={"name": "web1", "spec": {**SERVER, "image": "nosuch"}},
        headers={"Accept-Language": "tr"},
    )
    assert turkish.json()["detail"] == "nosuch adında bir image yok."
    assert turkish.json()["title"] == "İşlenemeyen istek"


async def test_roles_and_projects_keep_people_apart(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    viewer, member = await api.token_of("viewer"), await api.token_of("member")
    assert (await api.client.get("/v1/servers/web1", headers=viewer)).status_code == 200
    assert (
        await api.client.patch("/v1/servers/web1", json={"spec": {"tags": ["x"]}}, headers=viewer)
    ).status_code == 403
    assert (await api.client.post("/v1/servers/web1/verify", headers=viewer)).status_code == 403
    assert (await api.client.post("/v1/servers/web1/verify", headers=member)).status_code == 202
    operator = await api.token_of("operator")
    assert (
        await api.client.post(
            "/v1/plans",
            json={"name": "p", "spec": {"cores": 1, "memory_mib": 512, "disk_gib": 1}},
            headers=operator,
        )
    ).status_code == 403
    await api.project("prj_other", "other")
    stranger = await api.token_of("owner", project="prj_other")
    for path in ("web1", made["id"]):
        assert (await api.client.get(f"/v1/servers/{path}", headers=stranger)).status_code == 404
        assert (await api.client.delete(f"/v1/servers/{path}", headers=stranger)).status_code == 404
    assert (await api.client.get("/v1/servers", headers=stranger)).json()["items"] == []
    assert (
        await api.client.post("/v1/servers", json={"name": "w", "spec": SERVER}, headers=stranger)
    ).json()["code"] == "reference_not_found"
    nobody = {"Authorization": "Bearer z9_wrong"}
    assert (await api.client.get("/v1/servers", headers=nobody)).status_code == 401


async def test_a_protected_server_and_a_network_in_use_cannot_be_deleted(api: Api) -> None:
    await api.client.post("/v1/servers", json={"name": "web1", "spec": {**SERVER, "protected": True}})
    assert (await api.client.delete("/v1/servers/web1")).json()["code"] == "protected"
    in_use = await api.client.delete("/v1/networks/lan")
    assert (in_use.status_code, in_use.json()["code"]) == (409, "in_use")


async def test_the_regions_token_is_never_shown(api: Api) -> None:
    secret = api.world.sandbox.token.split("=", 1)[1]
    for path in (
        "/v1/regions/r1",
        "/v1/regions",
        "/v1/regions/r1/history",
        "/v1/regions/r1/proofs",
        "/v1/jobs",
    ):
        assert secret not in (await api.client.get(path)).text
