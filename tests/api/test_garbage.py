"""Whatever is thrown at whichever address: problem+json in the asked language, and never a 5xx."""

import json
import re
from typing import Any

from api_kit import PLAN, SERVER
from api_world import Api
from zone9.api.app import described
from zone9.products.registry import registry

OPERATIONS = [
    (method, path)
    for path, operations in described(registry()).openapi()["paths"].items()
    for method in operations
    if path.startswith("/v1/") and path != "/v1/events"
]
REFS = [
    "nosuch",
    "srv_" + "0" * 26,
    "%00",
    "..%2f..%2fetc",
    "%F0%9F%A6%84",
    "a" * 3000,
    "';--",
    "%ff%fe",
    "*",
]
BODIES: list[tuple[bytes, str, set[int]]] = [
    (b"", "application/json", {200, 202, 400, 404, 409, 422}),
    (b"{", "application/json", {400}),
    (b"\xff\xfe", "application/json", {400}),
    (b"[]", "application/json", {422}),
    (b'"x"', "application/json", {422}),
    (b"null", "application/json", {200, 202, 404, 409, 422}),
    (b'{"name": NaN}', "application/json", {400}),
    (b'{"name": "a\\u0000b"}', "application/json", {400}),
    (b'{"name": "\\ud800"}', "application/json", {400}),
    (b"[" * 100_000, "application/json", {400}),
    (b"1" * 5000, "application/json", {400}),
    (b'{"nosuch": 1}', "application/json", {422}),
    (b'{"name": 1e400, "spec": {}}', "application/json", {400, 422}),
    (b"<xml/>", "application/xml", {415}),
    (b"a=b", "application/x-www-form-urlencoded", {415}),
    (b"x" * (2**20 + 1), "application/json", {413}),
]


def problem(answer: Any) -> Any:
    assert answer.headers["content-type"] == "application/problem+json", (answer.status_code, answer.text)
    found = answer.json()
    assert found["status"] == answer.status_code
    assert re.fullmatch(r"[a-z_]+", found["code"])
    assert found["title"]
    assert found["detail"]
    assert "retryable" in found
    return found


async def test_garbage_at_every_address(api: Api) -> None:
    for method, path in OPERATIONS:
        await throw(api, method, path)


async def throw(api: Api, method: str, path: str) -> None:
    for ref in REFS if "{" in path else ["-"]:
        answer = await api.client.request(method, re.sub(r"\{\w+\}", ref, path))
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            problem(answer)
    address = re.sub(r"\{\w+\}", "nosuch", path)
    for query in ("?nosuch=1", "?page_size=0", "?page_size=x", "?page_token=%00", "?dry_run=perhaps", "?a&a"):
        problem(await api.client.request(method, address + query))
    if method != "get":
        for body, kind, statuses in BODIES:
            answer = await api.client.request(
                method, address, content=body, headers={"Content-Type": kind, "Accept-Language": "tr"}
            )
            # A delete reads no body; what is in it may be anything that is JSON.
            expected = statuses | {404} if method == "delete" else statuses
            assert answer.status_code in expected, (body[:40], answer.status_code, answer.text[:300])
            if answer.status_code >= 400:
                problem(answer)
    headers = {
        "Idempotency-Key": "\x7f",
        "If-Match": 'W/"x", *"',
        "Prefer": "wait=99999999999999999999",
        "Zone9-Project": "nosuch",
        "Accept-Language": "tr;q=x,,;q=1,*;q=nan",
    }
    for name, value in headers.items():
        answer = await api.client.request(method, address, headers={name: value})
        assert 400 <= answer.status_code < 500 or method == "get" or path.count("{") == 0, answer.text


async def test_what_the_framework_refuses_is_a_problem_too(api: Api) -> None:
    assert problem(await api.client.get("/nosuch"))["code"] == "not_found"
    assert problem(await api.client.get("/v1/servers/"))["code"] == "not_found"
    wrong = await api.client.put("/v1/servers/web1")
    assert problem(wrong)["code"] == "method_not_allowed"
    assert wrong.headers["allow"] == "DELETE, GET, PATCH"
    turkish = await api.client.put("/v1/servers/web1", headers={"Accept-Language": "tr-TR, en; q=0.5"})
    assert turkish.json()["title"] == "Yöntem bilinmiyor"
    assert turkish.headers["content-language"] == "tr"
    large = await api.client.post(
        "/v1/plans",
        content=b"x" * (2**20 + 1),
        headers={"Content-Type": "application/json", "Accept-Language": "tr"},
    )
    assert problem(large)["detail"] == "Gövde çok büyük; en fazla 1 MiB."


async def test_no_token_no_answer(api: Api) -> None:
    for headers in (
        {"Authorization": ""},
        {"Authorization": "Basic eDp5"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer z9_" + "x" * 5000},
        {"Authorization": b"Bearer \xff\xfe"},
    ):
        for method, path in OPERATIONS:
            answer = await api.client.request(method, path, headers=headers)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
            problem(answer)


async def test_fields_are_named_in_both_languages(api: Api) -> None:
    body = {
        "name": "web1",
        "spec": {**SERVER, "cores": 0, "power": "maybe", "nosuch": 1, "stop": {"timeout": "x"}},
    }
    english = problem(await api.client.post("/v1/servers", json=body))
    turkish = problem(await api.client.post("/v1/servers", json=body, headers={"Accept-Language": "tr"}))
    assert [one["pointer"] for one in english["errors"]] == [one["pointer"] for one in turkish["errors"]]
    told = {one["pointer"]: one["detail"] for one in turkish["errors"]}
    assert told == {
        "/spec/cores": "En az 1 olmalı.",
        "/spec/power": "Şunlardan biri olmalı: 'on' or 'off'.",
        "/spec/nosuch": "Böyle bir alan yok.",
        "/spec/stop/timeout": "Bir tam sayı olmalı.",
    }
    patch = await api.client.post("/v1/plans", json={"name": "p", "spec": PLAN})
    assert patch.status_code == 200
    wrong = await api.client.patch("/v1/plans/p", json={"spec": {"nosuch": 1}})
    assert problem(wrong)["errors"][0]["pointer"] == "/spec/nosuch"


async def test_nothing_internal_leaks(api: Api) -> None:
    secret = api.world.sandbox.token.split("=", 1)[1]
    answers = [
        await api.client.post("/v1/regions", json={"name": "r2", "spec": {"token_secret": secret}}),
        await api.client.patch("/v1/regions/r1", json={"spec": {"token_secret": secret, "nosuch": secret}}),
        await api.client.patch("/v1/regions/r1", json={"spec": {"token_secret": [secret]}}),
    ]
    for answer in answers:
        assert answer.status_code == 422
        assert secret not in json.dumps(problem(answer))
