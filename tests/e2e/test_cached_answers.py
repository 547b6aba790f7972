"""The cache and shared generations, through the whole stack: what is a hit, what never is, and who sees what."""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.house import PACED, House
from tests.support.stack import Stack
from tests.support.waiting import wait_until

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
_unique = itertools.count()


def question(text: str = "") -> str:
    """A question that nobody has asked before."""
    return f"{text} question {next(_unique)}".strip()


def ask(
    stack: Stack, text: str, *, key: str | None = None, headers: dict[str, str] | None = None, **fields: Any
) -> tuple[str, str]:
    """One waiting chat at temperature 0: what the cache header says, and the text."""
    client = stack.client(key) if key else stack.client()
    body: dict[str, Any] = {"temperature": 0, **fields}
    raw = client.chat.completions.with_raw_response.create(
        model="paced", messages=[{"role": "user", "content": text}], extra_headers=headers or {}, **body
    )
    return str(raw.headers["x-posthouse-cache"]), str(raw.parse().choices[0].message.content)


def becomes_a_hit(stack: Stack, text: str, **fields: Any) -> str:
    """Ask until the answer is in the cache, which is written after the commit; the text."""
    return wait_until(lambda: (found := ask(stack, text, **fields))[0] == "hit" and found[1], what="a hit")


def test_the_same_question_again_is_a_hit_with_its_age_and_a_job_of_its_own(stack: Stack) -> None:
    text = question()
    assert ask(stack, text) == ("miss", text)
    assert becomes_a_hit(stack, text) == text
    raw = stack.client().responses.with_raw_response.create(model="paced", input=text, temperature=0)
    assert raw.headers["x-posthouse-cache"] in {"hit", "miss"}
    first, second = (
        stack.client().chat.completions.create(
            model="paced", temperature=0, messages=[{"role": "user", "content": text}]
        )
        for _ in range(2)
    )
    assert first.id != second.id
    assert first.usage is not None
    assert first.usage == second.usage


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 99}, {"stop": ["zzz"]}, {"seed": 1}, {"top_p": 0.5}, {"presence_penalty": 0.1},
        {"response_format": {"type": "json_object"}}, {"logprobs": True}, {"frequency_penalty": 0.1},
        {"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "none"}, {"temperature": 0.0001},
    ],
)  # fmt: skip
def test_anything_that_can_change_the_answer_is_another_question(stack: Stack, change: dict[str, Any]) -> None:
    text = question()
    becomes_a_hit(stack, text)
    assert ask(stack, text, **change)[0] in {"miss", "bypass"}
    assert ask(stack, text + " ")[0] == "miss"


@pytest.mark.parametrize("change", [{"n": 2}, {"made_up": 1}, {"logit_bias": {"1": 1}}, {"top_k": 3}])
def test_what_would_be_ignored_is_refused_even_where_an_answer_is_at_hand(stack: Stack, change: dict[str, Any]) -> None:
    text = question()
    becomes_a_hit(stack, text)
    body = {"model": "paced", "temperature": 0, "messages": [{"role": "user", "content": text}], **change}
    refused = stack.ask("POST", "/v1/chat/completions", body)
    assert (refused.status, refused.json["error"]["param"]) == (400, next(iter(change)))


def test_other_instructions_are_another_question_and_another_order_of_fields_is_not(stack: Stack) -> None:
    text = question()

    def cache_of(system: str, *, turned: bool = False) -> str:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        body = {"model": "paced", "temperature": 0, "seed": 7, "messages": messages}
        if turned:
            messages[:] = [dict(reversed(message.items())) for message in messages]
            body = dict(reversed(body.items()))
        answer = stack.ask("POST", "/v1/chat/completions", body)
        assert answer.json["choices"][0]["message"]["content"] == text
        return str(answer.headers["x-posthouse-cache"])

    assert cache_of("be kind") == "miss"
    wait_until(lambda: cache_of("be kind") == "hit", what="a hit")
    assert cache_of("be kind", turned=True) == "hit"
    assert cache_of("be kind ") == "miss"


def test_who_says_nothing_of_the_temperature_is_not_content_with_an_answer_of_before(stack: Stack) -> None:
    text = question()
    becomes_a_hit(stack, text)
    body = {"model": "paced", "messages": [{"role": "user", "content": text}]}
    assert stack.ask("POST", "/v1/chat/completions", body).headers["x-posthouse-cache"] == "bypass"


@pytest.mark.parametrize("swap", [{"revision": "two"}, pytest.param({"quantization": "other"}, marks=pytest.mark.slow)])
def test_after_a_swap_of_the_model_no_answer_of_the_old_one_is_given(
    house: Callable[..., House], swap: dict[str, str]
) -> None:
    home = house(PACED + 'revision = "one"\nquantization = "this"\n')
    body = {"model": "paced", "temperature": 0, "input": "who are you"}

    def cache_of() -> str:
        return str(home.ask("POST", "/v1/responses", body).headers["x-posthouse-cache"])

    api, worker = home.api(), home.worker()
    assert cache_of() == "miss"
    wait_until(lambda: cache_of() == "hit", what="a hit")
    api.terminate()
    worker.terminate()
    changed = {"revision": "one", "quantization": "this", **swap}
    file = home.folder / "posthouse.toml"
    file.write_text(PACED + "".join(f'{name} = "{value}"\n' for name, value in changed.items()))
    home.api()
    home.worker()
    assert cache_of() == "miss"


def test_a_sampled_answer_is_not_given_again_unless_the_client_is_content_with_it(stack: Stack) -> None:
    text = question()
    assert [ask(stack, text, temperature=0.7)[0] for _ in range(2)] == ["bypass", "bypass"]
    allow = {"x-posthouse-cache": "allow"}
    assert ask(stack, text, temperature=0.7, headers=allow)[0] == "miss"
    assert becomes_a_hit(stack, text, temperature=0.7, headers=allow)
    assert ask(stack, text, temperature=0.7)[0] == "bypass"


def test_a_tenant_gets_nothing_of_what_another_was_answered(stack: Stack) -> None:
    text = question()
    becomes_a_hit(stack, text)
    assert ask(stack, text, key=stack.new_key("stranger"))[0] == "miss"


def test_no_cache_asks_the_engine_and_no_store_leaves_nothing(stack: Stack) -> None:
    text = question()
    becomes_a_hit(stack, text)
    before = stack.generations()["started"]
    assert ask(stack, text, headers={"Cache-Control": "no-cache"})[0] == "bypass"
    wait_until(lambda: stack.generations()["started"] > before, what="the engine is asked")
    other = question()
    for _ in range(2):
        assert ask(stack, other, headers={"Cache-Control": "no-store"})[0] == "bypass"
    status, body = only_if_cached(stack, other)
    assert (status, body["error"]["code"]) == (504, "cache_miss")


def only_if_cached(stack: Stack, text: str) -> tuple[int, Any]:
    body = {"model": "paced", "temperature": 0, "messages": [{"role": "user", "content": text}]}
    answer = stack.ask("POST", "/v1/chat/completions", body, **{"Cache-Control": "only-if-cached"})
    return answer.status, answer.json


@pytest.mark.parametrize("fault", ["{{fail=500}}", "{{length}}", "{{empty}}", "{{cut_at=1}} a b c"])
def test_what_is_no_complete_answer_is_never_given_again(stack: Stack, fault: str) -> None:
    text = question(fault)
    body = {"model": "paced", "temperature": 0, "input": text, "background": True}
    for _ in range(2):
        made = stack.ask("POST", "/v1/responses", body)
        assert stack.ended(made.json["id"])["cache"] in {"miss", "joined"}
    assert only_if_cached(stack, text)[0] == 504


def test_a_hundred_identical_questions_at_once_are_one_generation(stack: Stack, receiver: Any) -> None:
    text = question("{{ttft=1500 tokens=5}}")
    before = stack.redis().hget("ph:stats:paced", "completed") or 0

    def submit(_: int) -> str:
        hook = {"url": receiver.url()}
        return str(stack.submit(text, temperature=0, webhook=hook)["id"])

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        ids = list(pool.map(submit, range(100)))
    jobs = [stack.ended(job) for job in ids]
    assert len(set(ids)) == 100
    assert {job["status"] for job in jobs} == {"completed"}
    assert len({stack.text_of(job) for job in jobs}) == 1
    assert sorted({job["cache"] for job in jobs}) == ["joined", "miss"]
    assert int(stack.redis().hget("ph:stats:paced", "completed")) - int(before) == 1
    wait_until(lambda: len(receiver.received) >= 100, what="a webhook for each", limit=60)


def test_a_joined_caller_who_leaves_leaves_alone(stack: Stack) -> None:
    text = question("{{ttft=800 tokens=5}}")
    first = stack.submit(text, temperature=0)["id"]
    second = stack.submit(text, temperature=0)["id"]
    assert stack.ask("POST", f"/v1/responses/{first}/cancel", {}).json["status"] == "cancelled"
    job = stack.ended(second)
    assert (job["status"], job["cache"]) == ("completed", "joined")


def test_a_failing_leader_takes_no_more_attempts_than_one_job_would(stack: Stack) -> None:
    text = question("{{ttft=300 fail=500}}")
    before = stack.generations()["started"]
    ids = [stack.submit(text, temperature=0)["id"] for _ in range(5)]
    jobs = [stack.ended(job) for job in ids]
    assert {job["status"] for job in jobs} == {"failed"}
    assert stack.generations()["started"] - before <= 2 * 3


def test_a_stream_of_a_cached_answer_has_the_shape_of_a_fresh_one(stack: Stack) -> None:
    text = question()
    client = stack.client()

    def kinds() -> list[str]:
        return [e.type for e in client.responses.create(model="paced", input=text, temperature=0, stream=True)]

    fresh = kinds()
    becomes_a_hit(stack, text, max_tokens=None)
    cached = wait_until(
        lambda: (k := kinds()) and k.count("response.output_text.delta") == 1 and k, what="a cached stream"
    )
    without_deltas = [k for k in fresh if k != "response.output_text.delta"]
    assert [k for k in cached if k != "response.output_text.delta"] == without_deltas
