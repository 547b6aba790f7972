"""Every error is one nested JSON object with a request id, whatever was sent."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import openai
import pytest

from tests.integration.api.conftest import House

JSON = {"Content-Type": "application/json"}
CHAT = "/v1/chat/completions"
GOOD = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def shape(response: httpx.Response) -> dict[str, Any]:
    """The error object, after everything that all errors have in common was checked."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert not any(word in response.text for word in ("Traceback", "<html", 'File "', "werkzeug"))
    return {"status": response.status_code, **body["error"]}


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("POST", CHAT, {"content": b"{", "headers": JSON}, 400, "invalid_request"),
        ("POST", CHAT, {"content": b"[]", "headers": JSON}, 400, "invalid_request"),
        ("POST", CHAT, {"content": b"", "headers": JSON}, 400, "invalid_request"),
        ("POST", CHAT, {"content": b'{"model": "\xff"}', "headers": JSON}, 400, "invalid_request"),
        ("POST", CHAT, {"content": b'{"a":' * 5000 + b"1" + b"}" * 5000, "headers": JSON}, 400, "invalid_request"),
        ("POST", CHAT, {"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "unsupported_media_type"),
        ("POST", CHAT, {"content": b"{}"}, 415, "unsupported_media_type"),
        ("POST", CHAT, {"json": {**GOOD, "model": "nope"}}, 404, "model_not_found"),
        ("POST", CHAT, {"json": {"messages": GOOD["messages"]}}, 400, "invalid_request"),
        ("POST", CHAT, {"content": b"x" * 1_100_000, "headers": JSON}, 413, "body_too_large"),
        ("POST", CHAT, {"content": iter([b"x" * 600_000] * 3), "headers": JSON}, 413, "body_too_large"),
        ("GET", "/v1/nope", {}, 404, "not_found"),
        ("GET", "/", {}, 404, "not_found"),
        ("GET", "//v1//models", {}, 404, "not_found"),
        ("PUT", "/v1/responses", {}, 405, "method_not_allowed"),
        ("DELETE", "/healthz", {}, 405, "method_not_allowed"),
        ("GET", "/v1/responses/resp_" + "0" * 32, {}, 404, "job_not_found"),
        ("GET", "/v1/responses/%00", {}, 404, "job_not_found"),
        ("POST", "/v1/responses/nonsense/cancel", {}, 404, "job_not_found"),
        ("GET", "/v1/models/nope", {}, 404, "model_not_found"),
    ],
)
def test_a_bad_request_gets_one_shape(  # noqa: PLR0917 -- one argument a column of the table
    house: House, method: str, path: str, options: dict[str, Any], status: int, code: str
) -> None:
    with house.api.http() as http:
        found = shape(http.request(method, path, **options))
    assert (found["status"], found["code"]) == (status, code)


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer", "Basic abc", "Bearer " + "x" * 2000, "é"])
@pytest.mark.parametrize("path", ["/v1/models", "/v1/responses/x", "/admin/pool", "/metrics", "/v1/webhook_secret"])
def test_without_a_good_key_nothing_is_shown(house: House, path: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode()}
    with house.api.http(key=None) as http:
        found = shape(http.get(path, headers=headers))
    assert (found["status"], found["type"], found["code"]) == (401, "authentication_error", "invalid_api_key")


@pytest.mark.parametrize("path", ["/admin/pool", "/metrics"])
def test_operators_doors_want_scope_admin(house: House, path: str) -> None:
    with house.api.http(key=house.new_key("plain")) as http:
        assert shape(http.get(path))["status"] == 403
    with house.api.http(key=house.new_key("operator", scope="admin")) as http:
        assert http.get(path).status_code == 200


def test_the_sdk_raises_the_matching_class_with_the_message(house: House) -> None:
    with pytest.raises(openai.AuthenticationError, match="not known"):
        house.sdk("ph_wrong").models.list()
    with pytest.raises(openai.BadRequestError, match="is not known here"):
        house.sdk().chat.completions.create(**GOOD, extra_body={"cache_salt": "mine"})


def test_a_body_that_is_cut_off_leaves_no_job(house: House) -> None:
    before = house.redis.client().dbsize()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-development-key\r\n"
    with socket.create_connection(("127.0.0.1", house.api.port)) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode())
    with house.api.http() as http:
        assert http.get("/healthz").status_code == 200
    assert house.redis.client().dbsize() == before


def test_a_flood_of_unknown_ids_leaves_no_key(house: House) -> None:
    client = house.redis.client()
    with house.api.http() as http:
        http.get("/v1/responses/resp_" + "0" * 32)
        before = set(client.keys("ph:*"))
        for number in range(200):
            assert http.get(f"/v1/responses/resp_{number:032x}").status_code == 404
    assert set(client.keys("ph:*")) - before <= {"ph:instance:m.0"}


def test_a_refused_request_leaves_no_key(house: House) -> None:
    client = house.redis.client()
    before = len(client.keys("ph:job:*"))
    with house.api.http() as http:
        for body in ({**GOOD, "temperature": 9}, {**GOOD, "messages": []}, {**GOOD, "priority": 1}):
            assert shape(http.post(CHAT, json=body))["status"] == 400
    assert len(client.keys("ph:job:*")) == before


def test_no_log_line_holds_a_prompt_an_answer_a_key_or_a_query(house: House) -> None:
    marker = "a-secret-marker"
    sdk = house.sdk()
    made = sdk.responses.create(model="m", input=f"tokens=1 say={marker}")
    with house.api.http() as http:
        http.get(f"/v1/responses/{made.id}?note={marker}")
        http.post(CHAT, json={**GOOD, "messages": [{"role": "user", "content": [{"type": marker}]}]})
        http.post(CHAT, content=json.dumps({"model": marker}), headers=JSON)
    log = house.api.log()
    assert marker not in log
    assert "a-development-key" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    mine = [line for line in lines if line.get("path") == f"/v1/responses/{made.id}"]
    assert [(m["method"], m["status"], m["tenant"]) for m in mine] == [("GET", 200, "dev")]
    assert mine[0]["request_id"].startswith("req_")


def test_health_metrics_and_pool_say_what_there_is(house: House) -> None:
    house.sdk().responses.create(model="m", input="tokens=1")
    with house.api.http(key=None) as open_doors, house.api.http() as http:
        assert open_doors.get("/healthz").json() == {"status": "ok"}
        assert open_doors.get("/readyz").json() == {"status": "ready", "missing": []}
        pool = http.get("/admin/pool").json()["models"]["m"]
        assert set(pool) == {"policy", "backlog", "instances"}
        assert pool["instances"] == [
            {"id": "m.0", "revision": "r", "engine": "paced", "device": "cpu", "state": "ready", "breaker": "closed",
             "capacity": 64, "in_flight": pool["instances"][0]["in_flight"],
             "generations": {"started": 3, "finished": 2, "aborted": 1}, "tokens_per_second": 1.5}
        ]  # fmt: skip
        metrics = http.get("/metrics").text
    for name in ("posthouse_backlog", "posthouse_oldest_queued_seconds", "posthouse_running", "posthouse_instances",
                 "posthouse_dead_letters", "posthouse_generations_total", "posthouse_tokens_total",
                 "posthouse_hints_unpublished_total", "posthouse_http_requests_total"):  # fmt: skip
        assert f"# TYPE {name} " in metrics, name


def test_the_webhook_secret_is_one_a_tenant(house: House) -> None:
    with house.api.http() as dev, house.api.http(key=house.new_key("another")) as other:
        mine = dev.get("/v1/webhook_secret").json()["secret"]
        assert mine.startswith("whsec_")
        assert dev.get("/v1/webhook_secret").json()["secret"] == mine
        assert other.get("/v1/webhook_secret").json()["secret"] != mine


def test_a_revoked_key_is_refused_within_seconds(house: House) -> None:
    from app.services.keys import KeyStore
    from tests.support.waiting import wait_until

    keys = KeyStore(house.redis.client())
    key, secret = keys.create("short-lived")
    with house.api.http(key=secret) as http:
        assert http.get("/v1/models").status_code == 200
        assert keys.revoke(key.id)
        wait_until(lambda: http.get("/v1/models").status_code == 401, what="the key is refused", limit=8, every=0.2)
