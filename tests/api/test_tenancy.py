"""Projects, tokens and roles: who may do what, and what a secret's life is."""

from types import SimpleNamespace

import pytest

from api_kit import PLAN, SERVER
from api_world import Api
from zone9.api import state as api_state
from zone9.store import installation, tokens
from zone9.store.database import Database


async def test_a_token_is_shown_once_kept_as_a_hash_and_dies_at_once_when_revoked_here(api: Api) -> None:
    made = (await api.client.post("/v1/tokens", json={"name": "ci", "role": "operator"})).json()
    assert made["token"].startswith("z9_")
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert (await api.client.get("/v1/servers", headers=headers)).status_code == 200
    listed = (await api.client.get("/v1/tokens")).json()["items"]
    shown = next(one for one in listed if one["id"] == made["id"])
    assert "token" not in shown
    assert shown["last_used_at"] is not None
    revoked = await api.client.post(f"/v1/tokens/{made['id']}/revoke")
    assert revoked.json()["revoked_at"] is not None
    assert (await api.client.get("/v1/servers", headers=headers)).status_code == 401
    again = await api.client.post(f"/v1/tokens/{made['id']}/revoke")
    assert again.json()["revoked_at"] == revoked.json()["revoked_at"]


async def test_a_token_revoked_by_another_process_works_for_15_seconds_at_most(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await api.client.post("/v1/tokens", json={"name": "ci", "role": "operator"})).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    clock = SimpleNamespace(monotonic=lambda: 1000.0)
    monkeypatch.setattr(api_state, "time", clock)
    assert (await api.client.get("/v1/jobs", headers=headers)).status_code == 200
    await api.world.all(
        "UPDATE api_tokens SET revoked_at = z9_now() WHERE id = :id RETURNING id", id=made["id"]
    )
    clock.monotonic = lambda: 1014.9
    assert (await api.client.get("/v1/jobs", headers=headers)).status_code == 200
    clock.monotonic = lambda: 1015.1
    assert (await api.client.get("/v1/jobs", headers=headers)).status_code == 401


async def test_last_use_is_written_once_a_minute(api: Api) -> None:
    hashed = tokens.hashed(api.token)
    database = api.world.zone9.database

    async def used() -> object:
        await tokens.holder_of(database, hashed)
        return (await api.world.all("SELECT last_used_at FROM api_tokens WHERE hash = :h", h=hashed))[0][
            "last_used_at"
        ]

    first = await used()
    assert await used() == first
    await api.world.pass_time(61)
    assert await used() != first


@pytest.mark.parametrize("role", ["viewer", "member", "operator", "owner"])
async def test_what_a_role_may(api: Api, role: str) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    headers = await api.token_of(role)

    async def status(method: str, path: str, body: object = None) -> int:
        return (await api.client.request(method, path, json=body, headers=headers)).status_code

    rank = ["viewer", "member", "operator", "owner"].index(role)
    server = f"/v1/servers/{made['resource']['id']}"
    for path in (
        server,
        f"{server}/history",
        f"{server}/drifts",
        f"{server}/proofs",
        "/v1/jobs",
        "/v1/regions/r1",
        "/v1/plans",
    ):
        assert await status("GET", path) == 200
    assert (await status("POST", f"{server}/verify") == 202) == (rank >= 1)
    assert (await status("PATCH", server, {"spec": {"tags": ["x"]}}) == 202) == (rank >= 2)
    assert (await status("POST", f"{server}/stop") == 202) == (rank >= 2)
    assert (await status("POST", f"{server}/reconcile") == 202) == (rank >= 2)
    assert (await status("GET", "/v1/tokens") == 200) == (rank >= 3)
    assert (await status("POST", "/v1/tokens", {"name": "t", "role": "viewer"}) == 201) == (rank >= 3)
    assert await status("POST", "/v1/tokens", {"name": "t", "role": "admin"}) == 403
    assert await status("GET", "/v1/projects") == 403
    assert await status("POST", "/v1/projects", {"name": "p"}) == 403
    assert await status("POST", "/v1/plans", {"name": "p", "spec": PLAN}) == 403
    assert await status("PATCH", "/v1/regions/r1", {"spec": {}}) == 403
    assert await status("DELETE", "/v1/images/tiny") == 403
    job = made["job"]["id"]
    assert (await status("POST", f"/v1/jobs/{job}/cancel") in {200, 409}) == (rank >= 2)
    assert (await status("DELETE", server) == 202) == (rank >= 2)


async def test_another_projects_things_do_not_exist(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    own = (await api.client.post("/v1/tokens", json={"name": "t", "role": "viewer"})).json()
    await api.client.post("/v1/projects", json={"name": "other"})
    stranger = await api.client.post(
        "/v1/tokens", json={"name": "o", "role": "owner"}, headers={"Zone9-Project": "other"}
    )
    headers = {"Authorization": f"Bearer {stranger.json()['token']}"}
    server, job = made["resource"]["id"], made["job"]["id"]
    for method, path in (
        ("GET", f"/v1/servers/{server}"),
        ("GET", f"/v1/servers/{server}/history"),
        ("GET", f"/v1/servers/{server}/drifts"),
        ("GET", f"/v1/servers/{server}/proofs"),
        ("POST", f"/v1/servers/{server}/verify"),
        ("POST", f"/v1/servers/{server}/restart"),
        ("POST", f"/v1/servers/{server}/reconcile"),
        ("DELETE", f"/v1/servers/{server}"),
        ("GET", f"/v1/jobs/{job}"),
        ("POST", f"/v1/jobs/{job}/cancel"),
        ("POST", f"/v1/tokens/{own['id']}/revoke"),
    ):
        answer = await api.client.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), (method, path)
    assert (await api.client.get(f"/v1/jobs?resource={server}", headers=headers)).json()["items"] == []
    assert [one["name"] for one in (await api.client.get("/v1/tokens", headers=headers)).json()["items"]] == [
        "o"
    ]
    # The same name is free there, and naming a project by header does not help a project's token.
    for project in ("default", "nosuch"):
        peek = await api.client.get("/v1/servers", headers={**headers, "Zone9-Project": project})
        assert (peek.status_code, peek.json()["code"]) == (403, "other_project")
    assert (
        await api.client.get("/v1/servers", headers={**headers, "Zone9-Project": "other"})
    ).status_code == 200
    assert (await api.client.get("/v1/servers", headers={"Zone9-Project": "nosuch"})).status_code == 404


async def test_a_quota_holds(api: Api) -> None:
    await api.client.post("/v1/projects", json={"name": "small", "quota": {"network": 1}})
    headers = {"Zone9-Project": "small"}
    lan = {"region": "r1", "vlan": 7, "cidr": "10.20.0.0/24"}
    first = await api.client.post("/v1/networks", json={"name": "a", "spec": lan}, headers=headers)
    assert first.status_code in {200, 202}, first.text
    second = await api.client.post(
        "/v1/networks",
        json={"name": "b", "spec": {**lan, "vlan": 8, "cidr": "10.21.0.0/24"}},
        headers=headers,
    )
    assert (second.status_code, second.json()["code"]) == (409, "quota_reached")
    again = await api.client.post("/v1/projects", json={"name": "small"})
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")


async def test_a_canceled_job_stays_canceled(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    path = f"/v1/jobs/{made['job']['id']}"
    assert (await api.client.post(f"{path}/cancel")).json()["status"] == "canceled"
    again = await api.client.post(f"{path}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "job_ended")
    await api.world.run(made["resource"]["id"])
    assert (await api.client.get(path)).json()["status"] == "canceled"
    assert api.world.sandbox.vms.keys() == {9000}


async def test_history_and_proofs_tell_what_was_asked_and_read_back(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    await api.world.settle(made["resource"]["id"])
    for number in range(3):
        await api.client.patch("/v1/servers/web1", json={"spec": {"tags": [f"t{number}"]}})
    versions: list[int] = []
    token = None
    while True:
        query = "?page_size=3" + (f"&page_token={token}" if token else "")
        page = (await api.client.get(f"/v1/servers/web1/history{query}")).json()
        versions += [one["version"] for one in page["items"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert versions == [4, 3, 2, 1]
    assert page["items"][-1]["actor"] == "token:first"
    proofs = (await api.client.get("/v1/servers/web1/proofs?page_size=1000")).json()["items"]
    assert proofs
    assert all(one["read_back"] and one["intent_version"] == 1 for one in proofs)


async def test_drift_is_listed_with_who_did_it_and_how_it_ended(api: Api) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()["resource"]
    await api.world.settle(made["id"])
    [vmid] = api.world.sandbox.vms.keys() - {9000}
    for number in range(2):
        api.world.sandbox.operator.set(vmid, name=f"renamed{number}", user="ayse@pve")
        await api.world.sweep()
        await api.world.settle(made["id"])
    first = (await api.client.get("/v1/servers/web1/drifts?page_size=1")).json()
    [newest] = first["items"]
    told = {key: newest[key] for key in ("field", "asked", "read", "who", "ending")}
    assert told == {
        "field": "name", "asked": "web1", "read": "renamed1", "who": "ayse@pve", "ending": "set_back",
    }  # fmt: skip
    rest = (await api.client.get(f"/v1/servers/web1/drifts?page_token={first['next_page_token']}")).json()
    assert [one["read"] for one in rest["items"]] == ["renamed0"]
    bad = await api.client.get("/v1/servers/web1/drifts?page_token=x")
    assert (bad.status_code, bad.json()["code"]) == (400, "bad_page_token")


async def test_health_readiness_and_metrics_need_no_token_and_tell_no_secret(
    api: Api, database_url: str
) -> None:
    made = (await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    await api.world.settle(made["resource"]["id"])
    nobody = {"Authorization": ""}
    assert (await api.client.get("/healthz", headers=nobody)).json() == {"status": "ok"}
    assert (await api.client.get("/readyz", headers=nobody)).status_code == 200
    metrics = (await api.client.get("/metrics", headers=nobody)).text
    assert 'zone9_convergence_seconds_count{kind="server"} 1.0' in metrics
    assert 'zone9_convergence_seconds_bucket{kind="server",le="+Inf"} 1.0' in metrics
    assert 'zone9_jobs{kind="apply",status="succeeded"}' in metrics
    assert "web1" not in metrics
    await api.world.all("UPDATE alembic_version SET version_num = 'older' RETURNING version_num")
    assert (await api.client.get("/readyz", headers=nobody)).status_code == 503
    away = Database(database_url.replace("/z9_", "/nosuch_"))
    assert not await installation.ready(away)
    await away.close()


async def test_when_the_database_is_away_the_answer_is_503_and_retryable(api: Api) -> None:
    other = Database(api.world.zone9.database.url.replace("/z9_", "/nosuch_"))
    app = api.client._transport.app  # type: ignore[attr-defined]
    kept, app.state.zone9.database = app.state.zone9.database, other
    try:
        answer = await api.client.get("/v1/servers", headers={"Accept-Language": "tr"})
    finally:
        app.state.zone9.database = kept
        await other.close()
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["code"], answer.json()["retryable"]) == ("database_unreachable", True)
    assert answer.headers["retry-after"] == "2"
    assert "nosuch" not in answer.text


async def test_percentiles_are_of_what_was_read_back_and_by_region(api: Api) -> None:
    await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER})
    [waiting] = (await api.client.get("/v1/convergence")).json()["under_way"]
    assert (waiting["kind"], waiting["region_name"], waiting["count"]) == ("server", "r1", 1)
    await api.world.settle((await api.client.get("/v1/servers/web1")).json()["id"])
    report = (await api.client.get("/v1/convergence", params={"window": 3600})).json()
    assert report["under_way"] == []
    by_kind = {one["kind"]: one for one in report["converged"]}
    server = by_kind["server"]
    assert (server["region_name"], server["count"]) == ("r1", 1)
    assert 0 < server["p50"] == server["p99"] == server["longest"]
    assert "plan" not in by_kind, "what exists only here does not converge"
    metrics = (await api.client.get("/metrics")).text
    assert 'zone9_convergence_quantile_seconds{kind="server",quantile="0.99",region="r1"}' in metrics
    other = await api.token_of("viewer")
    mine = (await api.client.get("/v1/convergence", headers=other)).json()["converged"]
    assert [one["kind"] for one in mine] == ["network", "server"], "regions are nobody's"


async def test_the_audit_is_for_owners_and_the_chain_for_administrators(api: Api) -> None:
    made = (await api.client.post("/v1/projects", json={"name": "shop"})).json()
    token = (await api.client.post("/v1/tokens", json={"name": "ci", "role": "member"})).json()
    await api.client.post(f"/v1/tokens/{token['id']}/revoke")
    newest = (await api.client.get("/v1/audit", params={"order": "newest", "page_size": 3})).json()
    assert [(one["action"], one["kind"], one["actor"]) for one in newest["items"]] == [
        ("revoke", "token", "token:first"),
        ("create", "token", "token:first"),
        ("create", "project", "token:first"),
    ]
    assert token["token"] not in str(newest)
    whole = (await api.client.get("/v1/audit", params={"page_size": 1000})).json()["items"]
    head = (await api.client.get("/v1/audit/head")).json()
    assert (head["seq"], head["hash"]) == (len(whole), whole[-1]["hash"])
    owner = await api.token_of("owner", project=made["id"])
    theirs = (await api.client.get("/v1/audit", headers=owner)).json()["items"]
    assert [(one["action"], one["kind"]) for one in theirs] == [("create", "project"), ("create", "token")]
    for path, headers, status in (
        ("/v1/audit/head", owner, 403),
        ("/v1/audit", await api.token_of("operator"), 403),
        ("/v1/audit?page_token=x1", None, 400),
    ):
        assert (await api.client.get(path, headers=headers)).status_code == status
