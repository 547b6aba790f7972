"""A client's mistake is refused before anything is queued, and never reaches an engine."""

from __future__ import annotations

import pytest

RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"


def chat(*messages) -> dict:
    return {"model": "paced", "messages": list(messages)}


REFUSED = [
    (CHAT, {"model": "paced"}, "messages"),
    (CHAT, {"model": "paced", "messages": None}, "messages"),
    (CHAT, {"model": "paced", "messages": []}, "messages"),
    (CHAT, {"model": "paced", "messages": "text"}, "messages"),
    (CHAT, chat({"role": "user"}), "content"),
    (CHAT, chat({"role": "user", "content": None}), "content"),
    (CHAT, chat({"role": "user", "content": 7}), "content"),
    (CHAT, chat({"role": "nobody", "content": "x"}), "role"),
    (CHAT, {**chat({"role": "user", "content": "x"}), "prompt": [1, 2]}, "prompt"),
    (RESPONSES, {"model": "paced"}, "input"),
    (RESPONSES, {"model": "paced", "input": None}, "input"),
    (RESPONSES, {"model": "paced", "input": []}, "input"),
    (RESPONSES, {"model": "paced", "input": [{"role": "user", "content": None}]}, "content"),
]
BLANK = ["", " ", "\n\t  "]


def jobs(stack) -> int:
    return sum(1 for _ in stack.redis().scan_iter("ph:job:*"))


@pytest.mark.parametrize(
    ("path", "body", "field"), REFUSED, ids=[f"{p[-11:]}-{f}-{n}" for n, (p, _, f) in enumerate(REFUSED)]
)
def test_a_prompt_without_content_is_refused_by_the_fields_name(stack, path, body, field):
    before = jobs(stack)
    answer = stack.ask("POST", path, body)
    assert answer.status == 400, answer
    error = answer.json["error"]
    assert error["type"] == "invalid_request_error"
    assert field in (error["param"] or "")
    assert jobs(stack) <= before


@pytest.mark.parametrize("text", BLANK, ids=repr)
def test_a_blank_prompt_harms_nobody(stack, text):
    engines = [stack.engine_pid(slot=slot) for slot in range(3)]
    for path, body in ((CHAT, chat({"role": "user", "content": text})), (RESPONSES, {"model": "paced", "input": text})):
        answer = stack.ask("POST", path, body)
        assert answer.status in {200, 400}, answer
        if answer.status == 400:
            assert answer.json["error"]["param"]
    normal = stack.ask("POST", CHAT, chat({"role": "user", "content": "as usual"}))
    assert normal.json["choices"][0]["message"]["content"] == "as usual"
    assert [stack.engine_pid(slot=slot) for slot in range(3)] == engines


def test_a_field_that_belongs_to_the_worker_is_refused(stack):
    for name in ("priority", "request_id", "cache_salt", "kv_transfer_params", "chat_template", "prompt_logprobs"):
        answer = stack.ask("POST", CHAT, {**chat({"role": "user", "content": "x"}), name: "1"})
        assert (answer.status, answer.json["error"]["param"]) == (400, name)


def test_a_clients_mistake_that_only_the_engine_sees_says_nothing_of_the_instance(stack):
    """The engine refuses the prompt: the job fails with its own code, the instance goes on."""
    engines = [stack.engine_pid(slot=slot) for slot in range(3)]
    job = stack.ended(stack.submit("{{fail=400}}")["id"])
    assert (job["status"], job["error"]["code"], job["attempts"]) == ("failed", "invalid_prompt", 1)
    assert [stack.engine_pid(slot=slot) for slot in range(3)] == engines
    assert all(instance["state"] == "ready" for instance in stack.pool())


def words(tokens: int) -> str:
    """A text whose prompt has so many tokens: a word is one, and role, end and answering role are three more."""
    return " ".join(["w"] * (tokens - 3))


@pytest.mark.parametrize(
    ("text", "budget", "numbers"),
    [
        ("x", 9000, ("8192", "4", "9000")),
        (words(8300), None, ("8192", "8300", "at least 1")),
        (words(8192), None, ("8192", "8192", "at least 1")),
        (words(8100), 93, ("8192", "8100", "93")),
        ("x", 10**12, ("8192", "1000000000000")),
    ],
)
def test_a_prompt_beyond_the_context_is_refused_with_the_numbers(stack, text, budget, numbers):
    before = jobs(stack)
    for path, field, prompt in (
        (RESPONSES, "max_output_tokens", {"input": text}),
        (CHAT, "max_tokens", {"messages": [{"role": "user", "content": text}]}),
    ):
        answer = stack.ask("POST", path, {"model": "paced", **prompt, field: budget})
        error = answer.json["error"]
        assert (answer.status, error["code"]) == (400, "context_length_exceeded")
        assert all(number in error["message"] for number in numbers), error["message"]
    assert jobs(stack) <= before  # earlier ones may age out meanwhile


def test_an_open_budget_is_capped_to_what_the_prompt_leaves(stack):
    done = stack.ask("POST", RESPONSES, {"model": "paced", "input": words(8191), "max_output_tokens": None}).json
    assert (done["status"], done["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert (done["usage"]["input_tokens"], done["usage"]["output_tokens"]) == (8191, 1)


def test_a_budget_that_just_fits_is_kept(stack):
    done = stack.ask("POST", RESPONSES, {"model": "paced", "input": words(8100), "max_output_tokens": 92}).json
    assert (done["usage"]["input_tokens"], done["usage"]["output_tokens"]) == (8100, 92)


def test_a_huge_body_is_refused_before_anything_is_counted(stack):
    answer = stack.ask("POST", RESPONSES, {"model": "paced", "input": "w " * 2_500_000})
    assert (answer.status, answer.json["error"]["code"]) == (413, "body_too_large")
