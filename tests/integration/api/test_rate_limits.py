"""Limits of a key on the wire: headers, refusals, and what happens while Redis cannot count."""

from __future__ import annotations

import re

import httpx
import openai
import pytest

from app.services.keys import KeyStore
from tests.integration.api.conftest import House
from tests.support.api_process import ApiProcess
from tests.support.redis_process import RedisProcess

BODY = {"model": "m", "input": "tokens=1", "background": True, "max_output_tokens": 20}
HEADERS = [f"x-ratelimit-{what}-{kind}" for kind in ("requests", "tokens") for what in ("limit", "remaining", "reset")]
DURATION = re.compile(r"\d+ms|(\d+m)?\d+s")


def limits(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("x-ratelimit-")}


def test_a_limited_keys_answers_say_where_it_stands(house: House) -> None:
    key = house.new_key("limited", requests_per_minute=3, tokens_per_minute=10_000)
    with house.api.http(key=key) as http:
        first = http.post("/v1/responses", json=BODY)
        chat = http.post(
            "/v1/chat/completions",
            json={
                "model": "m",
                "messages": [{"role": "user", "content": "tokens=1"}],
                "stream": True,
                "max_tokens": 20,
            },
        )
        read = http.get(f"/v1/responses/{first.json()['id']}")
    assert sorted(limits(first)) == sorted(HEADERS)
    assert (first.headers["x-ratelimit-limit-requests"], first.headers["x-ratelimit-remaining-requests"]) == ("3", "2")
    assert first.headers["x-ratelimit-limit-tokens"] == "10000"
    assert 9_900 < int(first.headers["x-ratelimit-remaining-tokens"]) <= 9_980
    assert all(DURATION.fullmatch(first.headers[name]) for name in HEADERS if "reset" in name)
    assert chat.headers["x-ratelimit-remaining-requests"] == "1"
    assert limits(read) == {}


def test_a_key_without_limits_has_none_of_the_headers(house: House) -> None:
    with house.api.http(key=house.new_key("unlimited")) as http:
        assert limits(http.post("/v1/responses", json=BODY)) == {}
    with house.api.http(key=house.new_key("half-limited", requests_per_minute=9)) as http:
        found = limits(http.post("/v1/responses", json=BODY))
    assert sorted(found) == [name for name in sorted(HEADERS) if name.endswith("requests")]


@pytest.mark.parametrize("bound", ["requests_per_minute", "tokens_per_minute"])
def test_beyond_a_limit_nothing_is_accepted_and_the_sdk_knows_when_to_come_back(house: House, bound: str) -> None:
    limit = 2 if bound == "requests_per_minute" else 100
    key = house.new_key(f"short-of-{bound}", **{bound: limit})
    sdk = house.sdk(key)
    for _ in range(2):
        sdk.responses.create(**{**BODY, "max_output_tokens": 30})
    jobs = len(house.redis.client().keys("ph:job:*"))
    with pytest.raises(openai.RateLimitError) as caught:
        sdk.responses.create(**{**BODY, "max_output_tokens": 60})
    response = caught.value.response
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert 1 <= int(response.headers["retry-after"]) <= 120
    assert "x-should-retry" not in response.headers
    assert response.headers[f"x-ratelimit-limit-{bound.removesuffix('_per_minute')}"] == str(limit)
    assert len(house.redis.client().keys("ph:job:*")) == jobs


def test_a_request_above_the_whole_limit_is_not_to_be_retried(house: House) -> None:
    with house.api.http(key=house.new_key("tiny", tokens_per_minute=10)) as http:
        refused = http.post("/v1/responses", json={**BODY, "max_output_tokens": 500})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert (refused.headers["x-should-retry"], "retry-after" in refused.headers) == ("false", False)


def test_a_request_that_names_no_budget_is_charged_a_likely_one(house: House) -> None:
    with house.api.http(key=house.new_key("open-budget", tokens_per_minute=5_000)) as http:
        answer = http.post("/v1/responses", json={"model": "m", "input": "tokens=1", "background": True})
    assert 5_000 - 300 < int(answer.headers["x-ratelimit-remaining-tokens"]) < 5_000


def test_a_refused_request_is_not_charged(house: House) -> None:
    with house.api.http(key=house.new_key("clumsy", requests_per_minute=1)) as http:
        assert http.post("/v1/responses", json={**BODY, "temperature": 9}).status_code == 400
        assert http.post("/v1/responses", json={**BODY, "model": "nope"}).status_code == 404
        assert http.post("/v1/responses", json=BODY).status_code == 200


def left(response: httpx.Response) -> tuple[int, int]:
    """Requests and tokens that remain."""
    requests, tokens = (response.headers[f"x-ratelimit-remaining-{kind}"] for kind in ("requests", "tokens"))
    return int(requests), int(tokens)


def test_a_repetition_is_a_request_without_tokens_even_when_no_token_is_left(house: House) -> None:
    key = house.new_key("repeats", requests_per_minute=10, tokens_per_minute=100)
    body = {**BODY, "max_output_tokens": 60}
    with house.api.http(key=key) as http:
        http.headers["Idempotency-Key"] = "one action"
        first, *again = [http.post("/v1/responses", json=body) for _ in range(4)]
        other = http.post("/v1/responses", json={**body, "input": "tokens=2"})
    assert [answer.status_code for answer in again] == [200, 200, 200]
    assert {answer.json()["id"] for answer in (first, *again)} == {first.json()["id"]}
    requests, tokens = left(first)
    assert [left(answer) for answer in again] == [(requests - n, tokens) for n in (1, 2, 3)]
    # Another body is another request, which has to find its tokens first.
    assert (other.status_code, other.json()["error"]["code"]) == (429, "rate_limit_exceeded")


def test_a_key_used_with_another_body_costs_a_request_and_no_tokens(house: House) -> None:
    key = house.new_key("conflicting", requests_per_minute=10, tokens_per_minute=1000)
    with house.api.http(key=key) as http:
        http.headers["Idempotency-Key"] = "another action"
        first = http.post("/v1/responses", json=BODY)
        refused = http.post("/v1/responses", json={**BODY, "input": "tokens=2"})
    assert refused.json()["error"]["code"] == "idempotency_conflict"
    assert left(refused) == (left(first)[0] - 1, left(first)[1])


def test_a_refusal_of_the_queue_costs_a_request_and_no_tokens(own_redis: RedisProcess) -> None:
    api = ApiProcess(own_redis.url(), POSTHOUSE_JOBS__QUEUE_CAP="1")
    key = KeyStore(own_redis.client()).create("crowd", requests_per_minute=10, tokens_per_minute=1000)[1]
    try:
        with api.http(key=key) as http:
            taken, *refused = [http.post("/v1/responses", json=BODY) for _ in range(3)]
    finally:
        api.close()
    assert [answer.json()["error"]["code"] for answer in refused] == ["queue_full"] * 2
    requests, tokens = left(taken)
    assert [left(answer) for answer in refused] == [(requests - 1, tokens), (requests - 2, tokens)]


def test_a_shared_answer_costs_what_it_would_alone_and_none_at_hand_costs_nothing(house: House) -> None:
    key = house.new_key("caching", requests_per_minute=10, tokens_per_minute=1000)
    body = {**BODY, "input": "hold", "temperature": 0}
    with house.api.http(key=key) as http:
        missed = http.post("/v1/responses", json=body, headers={"Cache-Control": "only-if-cached"})
        first, joined = (http.post("/v1/responses", json=body) for _ in range(2))
        for answer in (first, joined):
            http.post(f"/v1/responses/{answer.json()['id']}/cancel")
    assert (missed.status_code, limits(missed)) == (504, {})
    assert (first.headers["x-posthouse-cache"], joined.headers["x-posthouse-cache"]) == ("miss", "joined")
    cost = 1000 - left(first)[1]
    assert left(joined) == (left(first)[0] - 1, 1000 - 2 * cost)


def test_a_keys_list_of_models_is_all_that_it_sees(house: House) -> None:
    with house.api.http(key=house.new_key("elsewhere", models=("other",))) as http:
        refused = http.post("/v1/responses", json=BODY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
        assert http.get("/v1/models").json()["data"] == []
        assert http.get("/v1/models/m").status_code == 404
    with house.api.http(key=house.new_key("here", models=("m",))) as http:
        assert http.post("/v1/responses", json=BODY).status_code == 200
        assert [m["id"] for m in http.get("/v1/models").json()["data"]] == ["m"]


def test_while_redis_is_away_the_submit_itself_says_so(own_house: House) -> None:
    key = own_house.new_key("limited", requests_per_minute=5)
    with own_house.api.http(key=key) as http, own_house.api.http() as operator:
        assert http.post("/v1/responses", json=BODY).status_code == 200
        assert operator.get("/healthz").status_code == 200
        own_house.redis.freeze()
        refused = http.post("/v1/responses", json=BODY)
        own_house.redis.thaw()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_unavailable")
        metrics = operator.get("/metrics").text
    assert "posthouse_rate_limits_unchecked_total 1.0" in metrics
