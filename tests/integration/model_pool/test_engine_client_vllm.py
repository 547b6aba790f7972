"""The client against a real vLLM server with the 4-bit demo model: the fields are where we look for them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.tokens.tokenizer import ModelCounter
from model_pool import errors
from model_pool.client import Chunk, Continuation, EngineClient, EngineRequest
from model_pool.engines.vllm import Vllm
from model_pool.spec import InstanceSpec, ModelSpec
from tests.support.waiting import until
from workers.logprobs import clean

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PROMPTS = ["Write a short story about a horse.", "List ten fruits with numbers.", "数到十"]


@pytest.fixture(scope="module")
def model() -> Path:
    from model_pool.quantize.demo import demo_folder_name, ensure_demo_model

    folder = Path("~/.cache/posthouse/models").expanduser() / demo_folder_name()
    return ensure_demo_model(folder, lambda *_: None)


@pytest.fixture(scope="module")
def vllm(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstanceSpec]:
    folder = tmp_path_factory.mktemp("vllm")
    options = {"tool_call_parser": "hermes"}
    served = ModelSpec("demo", "vllm", str(model), context_length=1024, max_concurrency=4, options=options)
    spec = InstanceSpec(served, 0, "cpu", folder)
    engine = Vllm()
    environment = {**os.environ, **engine.environment(spec)}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(engine.command(spec), env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        run(spec, lambda client: ready(client, server))
        yield spec
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)


@asynccontextmanager
async def open_client(spec: InstanceSpec) -> AsyncIterator[EngineClient]:
    client = EngineClient(model="demo", uds=spec.socket)
    try:
        yield client
    finally:
        await client.close()


def run(spec: InstanceSpec, scenario: Callable[[EngineClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with open_client(spec) as client:
            return await asyncio.wait_for(scenario(client), 600)

    return asyncio.run(main())


async def ready(client: EngineClient, server: subprocess.Popen[bytes]) -> None:
    async def answers() -> bool:
        assert server.poll() is None, "vLLM did not start"
        try:
            await client.probe(timeout=5)
        except errors.EngineFailure:
            return False
        return True

    await until(answers, what="vLLM answers", limit=600, every=0.5)


def request(content: str, continuation: Continuation | None = None, **params: Any) -> EngineRequest:
    fields = {"temperature": 0, "max_tokens": 40, **params}
    return EngineRequest("demo", ({"role": "user", "content": content},), fields, "r", continuation, "a-tenants-salt")


async def collect(client: EngineClient, ask: EngineRequest) -> list[Chunk]:
    async with aclosing(client.stream(ask, first_token_timeout=120, token_timeout=60)) as stream:
        return [chunk async for chunk in stream]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def ids_of(chunks: list[Chunk]) -> tuple[int, ...]:
    return tuple(token_id for chunk in chunks for token_id in chunk.token_ids)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_ids_finish_and_usage_are_read(vllm, prompt):
    chunks = run(vllm, lambda client: collect(client, request(prompt)))
    assert text_of(chunks)
    assert chunks[0].prompt_token_ids
    assert chunks[-1].usage.prompt_tokens == len(chunks[0].prompt_token_ids)
    assert chunks[-1].usage.completion_tokens == len(ids_of(chunks))
    assert next(chunk.finish_reason for chunk in chunks if chunk.finish_reason) in {"stop", "length"}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_answer_continues_by_ids_without_divergence(vllm, prompt):
    async def scenario(client: EngineClient) -> None:
        whole = await collect(client, request(prompt))
        # A place where all text is out: what ends in half a character is never continued from there.
        place = next(n for n, chunk in enumerate(whole) if n >= len(whole) // 2 and chunk.text) + 1
        begun = whole[:place]
        prompt_ids = whole[0].prompt_token_ids
        assert prompt_ids is not None
        left = 40 - len(ids_of(begun))
        continuation = Continuation(prompt_ids, ids_of(begun), text_of(begun))
        rest = await collect(client, request(prompt, continuation, max_tokens=left))
        assert ids_of(begun) + ids_of(rest) == ids_of(whole)
        assert text_of(begun) + text_of(rest) == text_of(whole)

    run(vllm, scenario)


def test_answer_continues_by_text(vllm):
    continuation = Continuation(text="1. Banana\n2. App")
    rest = run(vllm, lambda client: collect(client, request("List ten fruits with numbers.", continuation)))
    assert not text_of(rest).startswith("1.")


def test_stop_string_is_in_the_output(vllm):
    chunks = run(vllm, lambda client: collect(client, request("List ten fruits with numbers.", stop=["3."])))
    assert text_of(chunks).endswith("3.")
    assert [(c.finish_reason, c.stop_reason) for c in chunks if c.finish_reason] == [("stop", "3.")]


@pytest.mark.parametrize(
    ("content", "params", "code"),
    [
        ("x", {"max_tokens": 5000}, "context_length_exceeded"),
        ("word " * 2000, {"max_tokens": 1}, "context_length_exceeded"),
        ("x", {"temperature": -3}, "invalid_prompt"),
    ],
)
def test_clients_mistakes_are_refusals(vllm, content, params, code):
    with pytest.raises(errors.EngineRefused) as caught:
        run(vllm, lambda client: collect(client, request(content, **params)))
    assert (caught.value.status, caught.value.code) == (400, code)


def test_leaving_a_stream_stops_the_engine(vllm):
    async def running(client: EngineClient) -> float:
        _, metrics = await client._transport.ask("GET", "/metrics", 10)
        lines = [line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    async def idle(client: EngineClient) -> bool:
        return not await running(client)

    async def scenario(client: EngineClient) -> None:
        ask = request("Tell a long story.", max_tokens=900, ignore_eos=True)
        async with aclosing(client.stream(ask, first_token_timeout=120, token_timeout=60)) as stream:
            async for chunk in stream:
                if chunk.text:
                    assert await running(client) == 1
                    break
        await until(lambda: idle(client), what="the engine drops it", every=0.1)

    run(vllm, scenario)


def test_counts_are_not_expected_of_vllm(vllm):
    assert run(vllm, lambda client: client.stats()) is None
    assert run(vllm, lambda client: client.models()) == ("demo",)


@pytest.mark.parametrize("prompt", [*PROMPTS, "<|im_end|> žluť\n\n  驿站 "])
def test_the_prompt_is_counted_as_it_will_be_read(vllm, model, prompt):
    """By the server without running it, and by the API's own counter."""
    asked = run(vllm, lambda client: client.count(request(prompt)))
    chunks = run(vllm, lambda client: collect(client, request(prompt, max_tokens=1)))
    counter = ModelCounter.from_folder(model)
    assert asked == len(chunks[0].prompt_token_ids) == counter.count(request(prompt).messages, {})


def test_log_probabilities_are_read(vllm):
    chunks = run(vllm, lambda client: collect(client, request(PROMPTS[0], logprobs=True, top_logprobs=2)))
    entries = clean(entry for chunk in chunks for entry in chunk.logprobs)
    assert len(entries) == len(ids_of(chunks))
    assert all(len(entry["top_logprobs"]) == 2 and entry["logprob"] <= 0 for entry in entries)


def test_a_call_that_is_forced_comes_in_pieces(vllm):
    tool = {"type": "function", "function": {"name": "ride", "parameters": SCHEMA}}
    choice = {"type": "function", "function": {"name": "ride"}}
    chunks = run(vllm, lambda client: collect(client, request("Ride to Brno.", tools=[tool], tool_choice=choice)))
    pieces = [piece for chunk in chunks for piece in chunk.tool_calls]
    assert pieces[0]["function"]["name"] == "ride"
    assert {piece["index"] for piece in pieces} == {0}
    assert "".join(piece["function"].get("arguments") or "" for piece in pieces)  # a small model knows no better
