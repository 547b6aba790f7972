"""Caps, expected waits and what they tell the caller, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from app.services.keys import KeyStore
from tests.support.api_process import ApiProcess
from tests.support.redis_process import RedisProcess
from tests.support.stand_in_worker import StandInWorker
from tests.support.waiting import wait_until

BODY = {"model": "m", "input": "tokens=1", "background": True}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    found = RedisProcess()
    yield found
    found.close()


@pytest.fixture(scope="module")
def api(server: RedisProcess) -> Iterator[ApiProcess]:
    found = ApiProcess(
        server.url(), POSTHOUSE_JOBS__QUEUE_CAP="200", POSTHOUSE_WEBHOOKS__ALLOW_HOSTS=json.dumps(["127.0.0.1:1"])
    )
    yield found
    found.close()


@pytest.fixture(autouse=True)
def empty(server: RedisProcess) -> None:
    """Nothing of an earlier test is left in line."""
    client = server.client()
    for key in client.keys("ph:*"):
        if not key.startswith("ph:key"):
            client.delete(key)


def measured(server: RedisProcess) -> None:
    """One instance with two busy places; a run of the demo's cost takes a second."""
    client = server.client()
    client.hset("ph:instance:m.0", mapping={"capacity": 2, "in_flight": 2, "slot": 0})
    client.rpush("ph:ring:m", "m.0")
    client.hset("ph:rate:m", mapping={"work": 100, "busy": 10, "runs": 10, "at": 0})


def test_a_full_line_refuses_one_tenant_and_keeps_room_for_another(api: ApiProcess, server: RedisProcess) -> None:
    keys = KeyStore(server.client())
    first, second = keys.create("first")[1], keys.create("second")[1]
    hooked = {**BODY, "webhook": {"url": "http://127.0.0.1:1/hook"}}
    with api.http(key=first) as http:
        answers = [
            http.post("/v1/responses", json=hooked, headers={"Idempotency-Key": f"k{number}"}) for number in range(150)
        ]
    assert [a.status_code for a in answers] == [200] * 100 + [429] * 50
    for refused in answers[100:]:
        assert refused.json()["error"]["code"] == "queue_full"
        assert int(refused.headers["retry-after"]) >= 1
    client = server.client()
    assert len(client.keys("ph:job:*")) == len(client.keys("ph:idem:*")) == 100
    assert client.zcard("ph:line:m") == 100
    with api.http(key=second) as http:
        assert [http.post("/v1/responses", json=BODY).status_code for _ in range(5)] == [200] * 5

    worker = StandInWorker(client)
    try:
        wait_until(lambda: not client.zcard("ph:line:m") and not client.zcard("ph:running"), what="the line is drained")
        assert client.zcard("ph:outbox") == 100
        with api.http(key=first) as http:
            again = http.post("/v1/responses", json=hooked, headers={"Idempotency-Key": "k149"})
            assert again.status_code == 200
            assert "x-posthouse-replayed" not in again.headers
            path = f"/v1/responses/{again.json()['id']}"
            wait_until(lambda: http.get(path).json()["status"] == "completed", what="it is done")
    finally:
        worker.close()


def test_position_and_wait_are_in_the_job_and_in_headers(api: ApiProcess, server: RedisProcess) -> None:
    with api.http() as http:
        unmeasured = http.post("/v1/responses", json=BODY)
        assert unmeasured.headers["x-posthouse-position"] == "0"
        assert "x-posthouse-eta" not in unmeasured.headers
        assert unmeasured.json()["queue"] == {"position": 0, "eta_seconds": None}
        measured(server)
        behind = http.post("/v1/responses", json=BODY)
        assert behind.headers["x-posthouse-position"] == "1"
        assert float(behind.headers["x-posthouse-eta"]) > 0
        shown = behind.json()["queue"]
        assert shown["position"] == 1
        assert shown["eta_seconds"] > 0.5
        polled = http.get(f"/v1/responses/{unmeasured.json()['id']}").json()["queue"]
        assert polled == {"position": 0, "eta_seconds": 0.5}


def test_a_stream_says_position_and_wait_in_a_comment(api: ApiProcess, server: RedisProcess) -> None:
    measured(server)
    body = {"model": "m", "input": "tokens=1", "stream": True}
    with api.http() as http, http.stream("POST", "/v1/responses", json=body) as answer:
        assert answer.headers["x-posthouse-position"] == "0"
        assert next(answer.iter_lines()) == ": position=0 eta=0.5"


def test_what_would_miss_its_deadline_is_refused_until_there_is_room(api: ApiProcess, server: RedisProcess) -> None:
    measured(server)
    urgent = {**BODY, "deadline_seconds": 2, "max_output_tokens": 8}
    with api.http() as http:
        answers = [http.post("/v1/responses", json=urgent) for _ in range(8)]
        statuses = [a.status_code for a in answers]
        assert statuses == sorted(statuses)
        refused = answers[-1]
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert 1 <= int(refused.headers["retry-after"]) <= 10
        assert "expected wait" in refused.json()["error"]["message"]
        patient = http.post("/v1/responses", json={**urgent, "deadline_seconds": 60})
        assert patient.status_code == 200


def test_operators_see_the_lines(api: ApiProcess, server: RedisProcess) -> None:
    measured(server)
    with api.http() as http:
        for tier in ("priority", "flex", "flex"):
            http.post("/v1/responses", json={**BODY, "service_tier": tier})
        seen = http.get("/admin/queues").json()
        line = seen["models"]["m"]
        assert (line["waiting"], line["places"], line["free_places"]) == (3, 2, 0)
        assert line["tiers"] == {"priority": 1, "default": 0, "flex": 2}
        assert line["tenants"] == {"dev": 3}
        assert line["expected_wait_seconds"] > 1
        assert seen["hints"]["gpu.m"] + seen["hints"].get("gpu.m.0", 0) >= 0
        metrics = http.get("/metrics").text
    assert 'posthouse_expected_wait_seconds{model="m"}' in metrics
    assert 'posthouse_redis_memory_ratio{role="jobs"}' in metrics


def test_an_api_that_was_started_during_an_outage_looks_at_the_policy_when_redis_is_back() -> None:
    server = RedisProcess()
    server.client().config_set("maxmemory-policy", "allkeys-lru")
    server.freeze()
    api = ApiProcess(server.url(), POSTHOUSE_REDIS__JOBS_TIMEOUT="0.5")
    try:
        with api.http() as http:
            assert http.post("/v1/responses", json=BODY).status_code == 503
            server.thaw()
            wait_until(lambda: "may drop" in http.get("/readyz").text, what="the policy is seen", every=0.1)
            refused = http.post("/v1/responses", json=BODY)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_unavailable")
            assert server.client().keys("ph:job:*") == []
            server.client().config_set("maxmemory-policy", "noeviction")
            assert http.post("/v1/responses", json=BODY).status_code == 200
    finally:
        api.close()
        server.close()


def test_a_full_jobs_redis_is_told_from_one_that_is_away(api: ApiProcess, server: RedisProcess) -> None:
    client = server.client()
    with api.http() as http:
        kept = http.post("/v1/responses", json=BODY).json()["id"]
        client.config_set("maxmemory", 1024 * 100)
        try:
            refused = http.post("/v1/responses", json=BODY)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_full")
            assert int(refused.headers["retry-after"]) >= 1
            assert http.get(f"/v1/responses/{kept}").status_code == 200
            assert http.get("/healthz").status_code == 200
            assert http.get("/readyz").status_code == 503
        finally:
            client.config_set("maxmemory", 0)
        assert http.post("/v1/responses", json=BODY).status_code == 200


def test_a_frozen_or_dead_cache_is_a_miss_and_no_error(server: RedisProcess) -> None:
    cache = RedisProcess(args=("--maxmemory-policy", "allkeys-lru"))
    api = ApiProcess(server.url(), POSTHOUSE_REDIS__CACHE_URL=cache.url())
    worker = StandInWorker(server.client())
    body = {**BODY, "temperature": 0, "background": False}
    try:
        with api.http() as http:
            assert http.post("/v1/responses", json={**body, "input": "one"}).headers["x-posthouse-cache"] == "miss"
            for text, break_it in (("two", cache.freeze), ("three", cache.kill)):
                break_it()
                for _ in range(3):
                    began = time.monotonic()
                    answer = http.post("/v1/responses", json={**body, "input": f"{text} tokens=1"})
                    assert (answer.status_code, answer.json()["status"]) == (200, "completed")
                    assert time.monotonic() - began < 5
            cleared = http.delete("/admin/cache")
            assert (cleared.status_code, cleared.json()["error"]["code"]) == (503, "unavailable")
            assert http.get("/admin/cache").json()["available"] is False
            cache.start()
            wait_until(lambda: http.delete("/admin/cache").status_code == 200, what="the cache is back", every=0.2)
            assert http.delete("/admin/cache?tennant=x").status_code == 400
            assert http.get("/admin/cache").json()["available"] is True
    finally:
        worker.close()
        api.close()
        cache.close()
