"""One user action is one generation: repetitions under an Idempotency-Key get the first job again."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.integration.api.conftest import House, build, tear_down
from tests.support.api_process import ApiProcess
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"


def text(prompt: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "input": prompt, **more}


def named(name: str | None = None) -> dict[str, str]:
    return {"Idempotency-Key": name or secrets.token_hex(8)}


def generations(house: House, tenant: str) -> list[str]:
    client = house.redis.client()
    keys = [k for k in client.scan_iter("ph:gen:gen_*") if k.count(":") == 2]
    return [k for k in keys if client.hget(k, "tenant") == tenant]


def test_ten_at_once_are_one_job_and_one_generation(house: House) -> None:
    key, headers = house.new_key("ten"), named()
    with house.api.http(key=key) as http, ThreadPoolExecutor(10) as pool:
        body = text("tokens=2", background=True)
        calls = [pool.submit(http.post, RESPONSES, json=body, headers=headers) for _ in range(10)]
        answers = [call.result() for call in calls]
    assert {a.status_code for a in answers} == {200}
    assert len({a.json()["id"] for a in answers}) == 1
    assert sorted(a.headers.get("x-posthouse-replayed", "") for a in answers) == ["", *["true"] * 9]
    assert len(generations(house, "ten")) == 1


def test_waiting_and_streaming_repetitions_get_the_whole_answer(house: House) -> None:
    with house.api.http(key=house.new_key("again")) as http:
        for body in (text("tokens=3"), text("tokens=3", stream=True)):
            headers = named()
            first, again = (http.post(RESPONSES, json=body, headers=headers) for _ in range(2))
            assert (first.status_code, again.status_code) == (200, 200)
            assert "x-posthouse-replayed" not in first.headers
            assert again.headers["x-posthouse-replayed"] == "true"
            if body.get("stream"):
                assert events(again) == events(first)
                assert events(again)[0] == 0
            else:
                assert again.json() == first.json()
    assert len(generations(house, "again")) == 2


def events(response: httpx.Response) -> list[int]:
    return [int(line[4:]) for line in response.text.splitlines() if line.startswith("id: ")]


def test_another_body_is_a_conflict_that_is_not_to_be_retried(house: House) -> None:
    with house.api.http() as http:
        headers = named()
        assert http.post(RESPONSES, json=text("tokens=1", background=True), headers=headers).status_code == 200
        for path, body in (
            (RESPONSES, text("tokens=2", background=True)),
            (RESPONSES, text("tokens=1", stream=True)),
            (CHAT, {"model": "m", "messages": [{"role": "user", "content": "tokens=1"}]}),
        ):
            refused = http.post(path, json=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_conflict")
            assert refused.headers["x-should-retry"] == "false"


def test_the_order_of_fields_does_not_make_another_body(house: House) -> None:
    body = text("tokens=1", background=True, metadata={"a": "1", "b": "2"})
    turned = {**dict(reversed(body.items())), "metadata": {"b": "2", "a": "1"}}
    with house.api.http() as http:
        headers = named()
        first = http.post(RESPONSES, json=body, headers=headers).json()["id"]
        assert http.post(RESPONSES, json=turned, headers=headers).json()["id"] == first


def test_another_tenant_gets_a_job_of_its_own_and_without_a_key_nothing_is_merged(house: House) -> None:
    body, headers = text("tokens=1", background=True), named()
    with house.api.http() as mine, house.api.http(key=house.new_key("theirs")) as theirs:
        ids = [http.post(RESPONSES, json=body, headers=headers).json()["id"] for http in (mine, theirs)]
        ids += [mine.post(RESPONSES, json=body).json()["id"] for _ in range(2)]
    assert len(set(ids)) == 4


def test_a_refused_submit_keeps_no_key(house: House) -> None:
    with house.api.http() as http:
        headers = named()
        assert http.post(RESPONSES, json=text("x", temperature=9), headers=headers).status_code == 400
        assert http.post(RESPONSES, json=text("tokens=1"), headers=headers).status_code == 200


@pytest.mark.parametrize(("name", "status"), [("", 400), ("x" * 256, 400), ("x" * 255, 200), ("é ü", 200)])
def test_a_key_has_1_to_255_characters(house: House, name: str, status: int) -> None:
    with house.api.http() as http:
        sent = {"Idempotency-Key": name.encode()}
        answer = http.post(RESPONSES, json=text("tokens=1"), headers=sent)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"]["param"] == "Idempotency-Key"


def test_the_failure_of_a_replayed_job_is_marked_too(house: House) -> None:
    with house.api.http() as http:
        headers, body = named(), text("fail=engine_error")
        first, again = (http.post(RESPONSES, json=body, headers=headers) for _ in range(2))
    assert first.json() == again.json()
    assert (again.json()["error"]["code"], again.headers["x-posthouse-replayed"]) == ("engine_error", "true")
    assert "x-posthouse-replayed" not in first.headers


def test_content_that_is_gone_is_no_second_run(house: House) -> None:
    with house.api.http(key=house.new_key("gone")) as http:
        headers, body = named(), text("tokens=1")
        job_id = http.post(RESPONSES, json=body, headers=headers).json()["id"]
        house.redis.client().delete(f"ph:job:{job_id}")
        refused = http.post(RESPONSES, json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_expired")
    assert refused.headers["x-should-retry"] == "false"
    assert len(generations(house, "gone")) == 1


def test_an_api_process_that_dies_while_the_caller_waits_does_not_make_a_second_job(own_redis: RedisProcess) -> None:
    house, redis = build(own_redis), own_redis.client()
    second: ApiProcess | None = None
    try:
        headers, body = named(), text("tokens=2 hold_at=1")
        with house.api.http() as http, ThreadPoolExecutor(1) as pool:
            cut = pool.submit(http.post, RESPONSES, json=body, headers=headers)
            wait_until(lambda: redis.keys("ph:job:resp_*"), what="the job is accepted")
            house.api.close()
            with pytest.raises(httpx.TransportError):
                cut.result(30)
        second = ApiProcess(own_redis.url())
        with second.http() as http, ThreadPoolExecutor(1) as pool:
            again = pool.submit(http.post, RESPONSES, json=body, headers=headers)
            house.worker.go_on.set()
            answer = again.result(30)
        assert (answer.status_code, answer.json()["status"]) == (200, "completed")
        assert answer.headers["x-posthouse-replayed"] == "true"
        assert len(redis.keys("ph:job:resp_*")) == 1
    finally:
        tear_down(house)
        if second:
            second.close()
