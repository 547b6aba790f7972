"""What a browser may do with its token: make and follow its own end user's jobs, and nothing else."""

from __future__ import annotations

import json
import secrets
from typing import Any

import httpx
import pytest

from tests.integration.api.conftest import House
from tests.support.waiting import wait_until

RESPONSES, CHAT, TOKENS = "/v1/responses", "/v1/chat/completions", "/v1/client_tokens"


@pytest.fixture
def key(house: House) -> str:
    """A key of a tenant of its own."""
    return house.new_key(f"shop-{secrets.token_hex(4)}")


def token(house: House, key: str, **fields: Any) -> str:
    with house.api.http(key=key) as http:
        made = http.post(TOKENS, json=fields)
    assert made.status_code == 200, made.text
    return str(made.json()["value"])


def make(
    house: House, secret: str, prompt: str = "tokens=1", headers: dict[str, str] | None = None, **more: Any
) -> str:
    """A background job of this caller; its id."""
    with house.api.http(key=secret) as http:
        made = http.post(RESPONSES, json={"model": "m", "input": prompt, "background": True, **more}, headers=headers)
    assert made.status_code == 200, made.text
    return str(made.json()["id"])


def status(house: House, secret: str, job_id: str) -> int:
    with house.api.http(key=secret) as http:
        return http.get(f"{RESPONSES}/{job_id}").status_code


def test_a_token_is_shown_once_with_its_end(house: House, key: str) -> None:
    with house.api.http(key=key) as http:
        made = http.post(TOKENS, json={"user": "alice", "models": ["m"], "expires_in": 60})
        body = made.json()
        assert http.post(TOKENS, json={}).json()["user"] is None
    assert body["value"].startswith("ek_")
    assert (body["object"], body["user"], body["models"]) == ("client_token", "alice", ["m"])
    assert body["expires_at"] - body["created_at"] == 60
    assert made.headers["cache-control"] == "no-store"
    records = house.redis.client().keys("ph:client_token:*")
    assert records
    assert all(0 < house.redis.client().ttl(record) <= 3600 for record in records)
    assert body["value"] not in house.api.log()


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"expires_in": 0}, 400, "expires_in"), ({"expires_in": 3601}, 400, "expires_in"),
        ({"expires_in": "60"}, 400, "expires_in"), ({"models": []}, 400, "models"),
        ({"models": ["nope"]}, 404, "models"), ({"user": ""}, 400, "user"), ({"scope": "admin"}, 400, "scope"),
    ],
)  # fmt: skip
def test_a_wrong_wish_is_refused(house: House, fields: dict[str, Any], status: int, param: str) -> None:
    with house.api.http() as http:
        refused = http.post(TOKENS, json=fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (status, param)


def test_an_end_user_sees_the_jobs_made_for_him_and_no_others(house: House, key: str) -> None:
    alice, again, bob = (token(house, key, user=name) for name in ("alice", "alice", "bob"))
    mine, theirs = make(house, alice), make(house, bob)
    servers = make(house, key, user="alice")
    nobodys = make(house, key)
    assert [status(house, again, job) for job in (mine, servers, theirs, nobodys)] == [200, 200, 404, 404]
    assert [status(house, key, job) for job in (mine, theirs)] == [200, 200]
    with house.api.http(key=alice) as http:
        assert {job["id"] for job in http.get(RESPONSES).json()["data"]} == {mine, servers}
        for method, path in (("POST", "/cancel"), ("GET", "/input_items"), ("DELETE", ""), ("GET", "?stream=true")):
            assert http.request(method, f"{RESPONSES}/{theirs}{path}").status_code == 404, path
        onward = {"model": "m", "input": "tokens=1", "previous_response_id": theirs}
        assert http.post(RESPONSES, json=onward).status_code == 404
        wait_until(lambda: http.get(f"{RESPONSES}/{mine}").json()["status"] == "completed", what="the job's end")
        assert http.post(RESPONSES, json={**onward, "previous_response_id": mine}).status_code == 200


def test_the_same_user_of_another_key_is_somebody_else(house: House) -> None:
    tenant = f"two-keys-{secrets.token_hex(4)}"
    one, other = (token(house, house.new_key(tenant), user="alice") for _ in range(2))
    assert status(house, other, make(house, one)) == 404


def test_without_a_user_a_token_sees_what_it_made_itself(house: House, key: str) -> None:
    one, other = token(house, key), token(house, key)
    job = make(house, one)
    assert [status(house, secret, job) for secret in (one, other, key)] == [200, 404, 200]


def test_an_idempotency_key_is_the_end_users_own(house: House, key: str) -> None:
    headers = {"Idempotency-Key": secrets.token_hex(4)}
    alice, again, bob = (token(house, key, user=name) for name in ("alice", "alice", "bob"))
    first, second, third, servers = (make(house, secret, headers=headers) for secret in (alice, again, bob, key))
    assert first == second
    assert len({first, third, servers}) == 3


@pytest.mark.parametrize("field", ["user", "safety_identifier"])
def test_a_token_speaks_for_no_other_end_user(house: House, key: str, field: str) -> None:
    for secret in (token(house, key, user="alice"), token(house, key)):
        with house.api.http(key=secret) as http:
            body = {"model": "m", "input": "tokens=1", "background": True, field: "bob"}
            refused = http.post(RESPONSES, json=body)
            chat = {"model": "m", "messages": [{"role": "user", "content": "tokens=1"}], field: "bob"}
            assert (refused.status_code, refused.json()["error"]["param"]) == (403, field)
            assert http.post(CHAT, json=chat).status_code == 403
    assert make(house, token(house, key, user="alice"), **{field: "alice"})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"), ("GET", "/v1/webhook_secret"), ("GET", "/admin/pool"), ("GET", "/metrics"),
        ("POST", TOKENS),
    ],
)  # fmt: skip
def test_all_other_doors_are_closed_to_it(house: House, method: str, path: str) -> None:
    with house.api.http(key=token(house, house.new_key("admins", scope="admin"), user="alice")) as http:
        refused = http.request(method, path, json={} if method == "POST" else None)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")


def test_it_may_not_have_webhooks_signed_nor_benchmark(house: House) -> None:
    with house.api.http(key=token(house, house.new_key("hooked", scope="admin"))) as http:
        body = {"model": "m", "input": "tokens=1", "background": True}
        hooked = http.post(RESPONSES, json={**body, "webhook": {"url": "https://example.com"}})
        assert (hooked.status_code, hooked.json()["error"]["param"]) == (403, "webhook")
        assert http.post(RESPONSES, json={**body, "ignore_eos": True}).status_code == 403


def test_its_models_and_its_keys_limits_hold(house: House) -> None:
    key = house.new_key("bounded", requests_per_minute=2)
    alice, bob = token(house, key, user="alice", models=["m"]), token(house, key, user="bob")
    make(house, alice)
    make(house, bob)
    with house.api.http(key=alice) as http:
        refused = http.post(RESPONSES, json={"model": "m", "input": "tokens=1", "background": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")


def test_a_stream_takes_it_from_the_address_and_nothing_else_does(house: House, key: str) -> None:
    secret = token(house, key, user="alice")
    job = make(house, secret, "tokens=2")
    with house.api.http(key=None) as http:
        stream = http.get(f"{RESPONSES}/{job}", params={"stream": "true", "client_token": secret})
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "response.completed" in stream.text
        asked = {"client_token": secret}
        for method, path, params in (
            ("GET", f"{RESPONSES}/{job}", asked),
            ("GET", RESPONSES, {**asked, "stream": "true"}),
            ("POST", f"{RESPONSES}/{job}/cancel", {**asked, "stream": "true"}),
            ("POST", RESPONSES, {**asked, "stream": "true"}),
            ("GET", f"{RESPONSES}/{job}", {"stream": "true", "client_token": key}),
        ):
            refused = http.request(method, path, params=params, json={} if method == "POST" else None)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key"), path
    assert secret not in house.api.log()


def test_an_open_stream_outlives_its_token(house: House, key: str) -> None:
    secret = token(house, key, user="alice", expires_in=3)
    body = {"model": "m", "input": "tokens=3 hold_at=1", "stream": True}
    with house.api.http(key=secret) as http, http.stream("POST", RESPONSES, json=body) as response:
        lines = response.iter_lines()
        seen = next(line for line in lines if '"delta":"t0"' in line)
        wait_until(lambda: expired(http), what="the token's end", every=0.2)
        house.worker.go_on.set()
        rest = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        house.worker.go_on.clear()
    assert seen
    assert rest[-1]["type"] == "response.completed"


def expired(http: httpx.Client) -> bool:
    return http.get(RESPONSES).status_code == 401


def test_no_end_users_name_stands_for_a_token_without_one(house: House, key: str) -> None:
    with house.api.http(key=key) as http:
        made = http.post(TOKENS, json={}).json()
    job = make(house, made["value"])
    assert status(house, made["value"], job) == 200
    for name in (f"token:{made['id']}", made["id"]):
        assert status(house, token(house, key, user=name), job) == 404
        assert status(house, made["value"], make(house, key, user=name)) == 404
    owner = house.redis.client().hget(f"ph:job:{job}", "user")
    with house.api.http(key=key) as http:
        assert http.post(TOKENS, json={"user": owner}).status_code == 400
