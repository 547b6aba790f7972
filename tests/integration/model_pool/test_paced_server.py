"""The paced server as a real process: paces, directives, continuations, counts."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.support import waiting
from tests.support.paced import MODEL, Caller, PacedProcess, Reply, calling

STREAM = {"stream": True, "return_token_ids": True, "stream_options": {"include_usage": True}}


def asked(server: PacedProcess, scenario: Callable[[Caller], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with calling(server) as caller:
            return await asyncio.wait_for(scenario(caller), 60)

    return asyncio.run(run())


def chat(server: PacedProcess, content: str, **fields: Any) -> Reply:
    return asked(server, lambda caller: caller.chat(content, **fields))


async def until(caller: Caller, **counts: int) -> dict[str, int]:
    """Poll `/stats` until it shows these counts."""

    async def reached() -> dict[str, int] | None:
        stats: dict[str, int] = await caller.stats()
        return stats if counts.items() <= stats.items() else None

    return await waiting.until(reached, what=f"the counts reach {counts}") or {}


def test_echo_streams_word_by_word_in_vllms_shape(shared_paced):
    reply = chat(shared_paced, "hello brave  new world\n", **STREAM)
    assert reply.text == "hello brave  new world\n"
    first, *rest = reply.events
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["prompt_token_ids"][1:6] == reply.token_ids
    assert [event.get("prompt_token_ids") for event in rest[:-1]] == [None] * 6
    assert [choice["delta"]["content"] for choice in reply.choices[1:]] == ["hello", " brave", "  new", " world", "\n"]
    usage, done = reply.events[-2:]
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 8, "completion_tokens": 5, "total_tokens": 13}
    assert done == "[DONE]"
    assert len({event["id"] for event in reply.events[:-1]}) == 1


def test_whole_answer_equals_the_streamed_one(shared_paced):
    streamed = chat(shared_paced, "one two {{bytes}} žluťoučký", **STREAM)
    whole = chat(shared_paced, "one two {{bytes}} žluťoučký", return_token_ids=True)
    assert whole.text == streamed.text == "one two žluťoučký"
    assert whole.token_ids == streamed.token_ids == list("one two žluťoučký".encode())
    assert whole.body["usage"] == streamed.events[-2]["usage"]
    assert whole.body["prompt_token_ids"] == streamed.events[0]["prompt_token_ids"]


def test_only_the_last_user_message_counts(shared_paced):
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "{{fail=500}}"},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]},
    ]
    body = {"model": MODEL, "messages": messages}
    assert asked(shared_paced, lambda caller: caller.post("/v1/chat/completions", body)).text == "in parts"


@pytest.mark.parametrize(
    ("content", "text", "finish"),
    [
        ("{{tokens=5}} a b", "a b a b a", "stop"),
        ("{{tokens=1}} a b", "a", "stop"),
        ("{{ttft=1 tpot=1 tokens=4}}", "1 2 3 4", "stop"),
        ("before {{length}} after", "before after", "length"),
        ("x {{empty}}", "", "stop"),
        ("{{text=another answer tokens=3}} x", "another answer another", "stop"),
        ('{{text="quoted" length}} x', "quoted", "length"),
        ('{{text={"a":{"b":1}}}}', '{"a":{"b":1}}', "stop"),
        ("{{crash_at=9}} too short to crash", "too short to crash", "stop"),
        ("{{ttft=0}}", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "stop"),
        ("{ not } a {block}", "{ not } a {block}", "stop"),
    ],
)
def test_directives_shape_the_answer(shared_paced, content, text, finish):
    for fields in ({}, STREAM):
        reply = chat(shared_paced, content, **fields)
        assert (reply.text, reply.finish_reason) == (text, finish)


@pytest.mark.parametrize(
    "content", ["{{nonsense}}", "{{tokens}}", "{{tokens=many}}", "{{crash=1}}", "{{}} {{tokens=1.5}}"]
)
def test_misspelt_directive_is_refused(shared_paced, content):
    reply = chat(shared_paced, content)
    assert reply.status == 400
    assert reply.body["error"]["type"] == "BadRequestError"
    assert content not in reply.body["error"]["message"]


@pytest.mark.parametrize(
    ("content", "status", "kind", "words"),
    [
        ("{{fail=400}}", 400, "BadRequestError", ""),
        ("{{fail=404}}", 404, "NotFoundError", ""),
        ("{{fail=500}}", 500, "InternalServerError", ""),
        ("{{fail=503}}", 503, "ServiceUnavailableError", ""),
        ("{{oom}}", 500, "InternalServerError", "CUDA out of memory"),
    ],
)
def test_staged_errors_have_vllms_shape(shared_paced, content, status, kind, words):
    for fields in ({}, STREAM):
        reply = chat(shared_paced, content, **fields)
        error = reply.body["error"]
        assert (reply.status, error["type"], error["code"], error["param"]) == (status, kind, status, None)
        assert words in error["message"]


def test_sticky_fails_until_the_process_is_replaced(start_paced):
    broken = start_paced()
    assert chat(broken, "well").status == 200
    assert chat(broken, "{{sticky}}").status == 500
    assert chat(broken, "well").status == 500
    assert chat(start_paced(), "well").status == 200


def test_crash_takes_the_process_at_once(paced):
    with pytest.raises(aiohttp.ClientError):
        chat(paced, "{{crash}}")
    assert paced.process.wait(10) == -signal.SIGKILL


def test_crash_at_sends_its_tokens_first(paced):
    reply = chat(paced, "{{crash_at=3}} a b c d", **STREAM)
    assert (reply.text, reply.broken) == ("a b c", True)
    assert paced.process.wait(10) == -signal.SIGKILL


def test_cut_at_breaks_the_stream_and_not_the_server(paced):
    reply = chat(paced, "{{cut_at=3}} a b c d", **STREAM)
    assert (reply.text, reply.broken, reply.finish_reason) == ("a b c", True, None)
    assert chat(paced, "still here").text == "still here"
    with pytest.raises(aiohttp.ServerDisconnectedError):
        chat(paced, "{{cut_at=3}} a b c d")


def test_hang_breaks_off_without_an_answer(paced):
    with pytest.raises(aiohttp.ServerDisconnectedError):
        chat(paced, "{{hang=0.05}} never")


def test_spin_stops_everybody(paced):
    async def scenario(caller: Caller) -> list[str]:
        order: list[str] = []

        async def note(content: str) -> None:
            order.append((await caller.chat(content)).text)

        spinning = asyncio.create_task(note("{{spin=0.5}} spun"))
        await until(caller, started=1)  # the spin is over before this is answered
        await note("other")
        await spinning
        return order

    assert asked(paced, scenario) == ["spun", "other"]


def test_tokens_come_at_their_pace(start_paced):
    async def scenario(caller: Caller) -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await caller.chat("a b c")
        default = loop.time() - begin
        await caller.chat("{{ttft=0 tpot=0}} a b c")
        return default, loop.time() - begin - default

    default, fast = asked(start_paced("--ttft-ms", "200", "--tpot-ms", "100"), scenario)
    assert default >= 0.4
    assert fast < default


# --- continuing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directives", ["{{crash_at=%d}}", "{{crash_at=%d bytes}}", "{{crash_at=%d tokens=12}}"])
@pytest.mark.parametrize("place", [1, 4, 7])
def test_another_server_continues_by_token_ids(start_paced, directives, place):
    content = f"{directives % place} čaj a káva a sůl na 驿站 · konec"
    begun = chat(start_paced(), content, **STREAM)
    assert begun.broken
    other = start_paced()
    prompt = [*begun.events[0]["prompt_token_ids"], *begun.token_ids]
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 100, **STREAM}
    rest = asked(other, lambda caller: caller.post("/v1/completions", body))
    whole = chat(other, content.replace(f"crash_at={place}", "ttft=0"), **STREAM)
    assert begun.token_ids + rest.token_ids == whole.token_ids
    assert begun.text + rest.text == whole.text
    assert rest.choices[0]["prompt_token_ids"] == prompt
    assert [choice.get("prompt_token_ids") for choice in rest.choices[1:]] == [None] * (len(rest.choices) - 1)
    assert rest.finish_reason == "stop"


@pytest.mark.parametrize("directives", ["{{cut_at=4}}", "{{cut_at=4 bytes}}", "{{cut_at=4 tokens=12}}"])
@pytest.mark.parametrize("begun", ["č", "čaj", "čaj a ká", "čaj a káva"])
def test_continues_by_text_even_inside_a_word(shared_paced, directives, begun):
    content = f"{directives} čaj a káva na 驿站"
    whole = chat(shared_paced, content.replace("cut_at=4", "ttft=0"))
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": begun}]
    body = {"model": MODEL, "messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    rest = asked(shared_paced, lambda caller: caller.post("/v1/chat/completions", {**body, **STREAM}))
    assert begun + rest.text == whole.text


def test_whole_answer_begun_leaves_nothing(shared_paced):
    messages = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "a b"}]
    body = {"model": MODEL, "messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    reply = asked(shared_paced, lambda caller: caller.post("/v1/chat/completions", body))
    assert (reply.text, reply.finish_reason) == ("", "stop")


def test_servers_share_one_vocabulary(start_paced):
    one, two = start_paced(), start_paced()
    first = chat(one, "alpha beta", return_token_ids=True).token_ids
    second = chat(two, "gamma beta alpha", return_token_ids=True).token_ids
    assert chat(one, "alpha gamma", return_token_ids=True).token_ids[0] == first[0]
    assert second[1] == first[1]
    restarted = start_paced()
    assert chat(restarted, "alpha beta", return_token_ids=True).token_ids == first


def test_unknown_token_id_is_refused(shared_paced):
    reply = asked(shared_paced, lambda caller: caller.post("/v1/completions", {"model": MODEL, "prompt": [999_999]}))
    assert reply.status == 400
    assert "out of vocabulary" in reply.body["error"]["message"]


# --- the other fields ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
@pytest.mark.parametrize(
    ("stop", "include", "text", "reason"),
    [
        ("STOP", False, "a bST", None),
        ("STOP", True, "a bST", None),
        ("b S", False, "a ", "b S"),
        ("b S", True, "a b S", "b S"),
        (["zzz", "T O"], False, "a b S", "T O"),
    ],
)
def test_stop_strings(shared_paced, fields, stop, include, text, reason):  # noqa: PLR0917  # pytest names them
    content = "a bST" if stop == "STOP" else "a b ST OP c"
    reply = chat(shared_paced, content, stop=stop, include_stop_str_in_output=include, **fields)
    assert reply.text == text
    assert reply.finish_reason == "stop"
    assert (reply.choices or reply.body["choices"])[-1]["stop_reason"] == reason


def test_budget_cuts_the_answer(shared_paced):
    assert (reply := chat(shared_paced, "a b c", max_tokens=2)).finish_reason == "length"
    assert reply.text == "a b"
    assert chat(shared_paced, "a b c", max_completion_tokens=3).finish_reason == "stop"
    assert chat(shared_paced, "a b", max_tokens=5, ignore_eos=True).text == "a b a b a"


def test_half_a_character_at_the_end_never_comes_out(shared_paced):
    for fields in ({}, STREAM):
        assert chat(shared_paced, "{{bytes}} a驿", max_tokens=3, **fields).text == "a"


def test_completion_of_text(shared_paced):
    body = {"model": MODEL, "prompt": "just text"}
    reply = asked(shared_paced, lambda caller: caller.post("/v1/completions", body))
    assert reply.text == "just text"
    assert reply.body["object"] == "text_completion"


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "other", "messages": [{"role": "user", "content": "x"}]}, 404, "model"),
        ({"messages": []}, 400, "messages"),
        ({}, 400, "messages"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, 400, "messages"),
        ({"messages": [{"role": "user", "content": 7}]}, 400, "messages"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, 400, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x"}], "stop": [""]}, 400, "stop"),
        ({"messages": [{"role": "user", "content": "x"}], "n": 2}, 400, "n"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5000}, 400, "input_tokens"),
        ([], 400, None),
    ],
)
def test_bad_requests_are_refused_and_not_counted(paced, body, status, param):
    async def scenario(caller: Caller) -> tuple[Reply, dict[str, int]]:
        return await caller.post("/v1/chat/completions", body), await caller.stats()

    reply, stats = asked(paced, scenario)
    assert (reply.status, reply.body["error"]["param"]) == (status, param)
    assert stats["started"] == 0


def test_context_holds_prompt_and_budget_together(start_paced):
    server = start_paced("--context-length", "16")  # three tokens stand around the message
    assert chat(server, "a b c", max_tokens=10).status == 200
    reply = chat(server, "a b c", max_tokens=11)
    assert reply.status == 400
    assert "maximum context length is 16 tokens" in reply.body["error"]["message"]


def test_models_health_and_tokenize(shared_paced):
    async def scenario(caller: Caller) -> tuple[Any, Any, Any]:
        async with caller.session.get("http://paced/health") as health:
            assert health.status == 200
        models = (await caller.get("/v1/models")).body
        text = (await caller.post("/tokenize", {"prompt": "a b", "return_token_strs": True})).body
        messages = (await caller.post("/tokenize", {"messages": [{"role": "user", "content": "a b"}]})).body
        return models, text, messages

    models, text, messages = asked(shared_paced, scenario)
    assert [(card["id"], card["max_model_len"]) for card in models["data"]] == [(MODEL, 4096)]
    assert (text["count"], text["token_strs"], text["max_model_len"]) == (2, ["a", " b"], 4096)
    assert messages["count"] == 5
    assert messages["tokens"][1:3] == text["tokens"]


# --- counts, aborts, the queue ------------------------------------------------------------------------------------


def test_hang_up_aborts_the_generation(paced):
    async def scenario(caller: Caller) -> dict[str, int]:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "{{tokens=1000 tpot=50}}"}], "stream": True}
        async with caller.session.post("http://paced/v1/chat/completions", json=body) as response:
            await response.content.readany()
            await until(caller, started=1, in_flight=1)
            response.close()
            response.close()  # once more: harmless
        waiting = asyncio.create_task(caller.chat("{{hang=60}}"))  # not streamed, not answered
        await until(caller, started=2, aborted=1)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        stats = await until(caller, aborted=2)
        assert (await caller.chat("free again")).text == "free again"
        return stats

    stats = asked(paced, scenario)
    assert stats == {"started": 2, "finished": 0, "aborted": 2, "failed": 0, "in_flight": 0}


def test_counts_tell_finished_from_failed(paced):
    async def scenario(caller: Caller) -> dict[str, int]:
        await caller.chat("a")
        await caller.chat("a", stream=True)
        await caller.chat("{{fail=500}}")
        await caller.chat("{{fail=400}}")
        await caller.chat("{{cut_at=1}} a b", stream=True)
        return await until(caller, failed=2)

    assert asked(paced, scenario) == {"started": 4, "finished": 2, "aborted": 0, "failed": 2, "in_flight": 0}


def test_requests_beyond_the_slots_wait_in_order(start_paced):
    server = start_paced("--max-concurrency", "2")

    async def scenario(caller: Caller) -> list[str]:
        order: list[str] = []

        async def note(content: str) -> None:
            order.append((await caller.chat(content)).text)

        async with asyncio.TaskGroup() as tasks:
            slow = tasks.create_task(note("{{ttft=60000}} slow"))
            tasks.create_task(note("{{ttft=300}} first"))
            await until(caller, in_flight=2)
            for n, content in enumerate(("second", "third", "fourth"), 3):
                tasks.create_task(note(content))
                await until(caller, started=n)
            await until(caller, finished=4)
            slow.cancel()
        return order

    assert asked(server, scenario) == ["first", "second", "third", "fourth"]


def test_waiting_request_that_hangs_up_is_aborted(start_paced):
    async def scenario(caller: Caller) -> dict[str, int]:
        running = asyncio.create_task(caller.chat("{{ttft=60000}}"))
        await until(caller, started=1)
        waiting = asyncio.create_task(caller.chat("never begins"))
        await until(caller, started=2)
        waiting.cancel()
        stats = await until(caller, aborted=1)
        running.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
        return stats

    assert asked(start_paced("--max-concurrency", "1"), scenario)["in_flight"] == 1


def test_zero_cost_serves_many_streams_whole(paced):
    async def scenario(caller: Caller) -> list[Reply]:
        asks = [caller.chat(f"{{{{tokens=200}}}} stream {n}", **STREAM) for n in range(64)]
        return await asyncio.gather(*asks)

    for n, reply in enumerate(asked(paced, scenario)):
        assert reply.events[-2]["usage"]["completion_tokens"] == 200
        assert len(reply.token_ids) == 200
        assert reply.text == " ".join(["stream", str(n)] * 100)


def test_stale_socket_file_is_no_obstacle(start_paced, tmp_path):
    first = start_paced()
    first.close()
    assert first.socket.exists()
    second = PacedProcess(tmp_path, data=tmp_path / "data", name=first.socket.name)
    try:
        assert chat(second, "hello").text == "hello"
    finally:
        second.close()


def test_log_shows_no_prompt(paced):
    chat(paced, "confidential", stop="secret")
    chat(paced, "{{confidential}}")
    assert "confidential" not in paced.log()
    assert paced.log().count("\n") == 1


def test_terminates_on_sigterm_with_streams_open(paced):
    async def scenario(caller: Caller) -> None:
        running = asyncio.create_task(caller.chat("{{ttft=60000}}", stream=True))
        await until(caller, started=1)
        paced.process.terminate()
        await asyncio.gather(running, return_exceptions=True)

    asked(paced, scenario)
    assert paced.process.wait(20) == 0
