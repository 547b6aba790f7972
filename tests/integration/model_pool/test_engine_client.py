"""The client against the paced server, and against servers that misbehave in ways that it does not stage."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from model_pool import errors
from model_pool.client import Chunk, Continuation, Dialect, EngineClient, EngineRequest
from tests.support import waiting
from tests.support.paced import MODEL, PacedProcess


def request(content: str, *, continuation: Continuation | None = None, **params: Any) -> EngineRequest:
    return EngineRequest(MODEL, ({"role": "user", "content": content},), params, "r-1", continuation)


async def collect(
    client: EngineClient, ask: EngineRequest, *, into: list[Chunk] | None = None, **limits: float
) -> list[Chunk]:
    chunks = [] if into is None else into
    times = {"first_token_timeout": 20, "token_timeout": 20, **limits}
    async with aclosing(client.stream(ask, **times)) as stream:
        async for chunk in stream:
            chunks.append(chunk)
    return chunks


@contextlib.asynccontextmanager
async def open_client(server: PacedProcess, dialect: Dialect | None = None) -> AsyncIterator[EngineClient]:
    client = EngineClient(model=MODEL, uds=server.socket, dialect=dialect)
    try:
        yield client
    finally:
        await client.close()


def run(
    server: PacedProcess, scenario: Callable[[EngineClient], Awaitable[Any]], dialect: Dialect | None = None
) -> Any:
    async def main() -> Any:
        async with open_client(server, dialect) as client:
            return await asyncio.wait_for(scenario(client), 60)

    return asyncio.run(main())


async def until(client: EngineClient, condition: Callable[[Any], bool]) -> Any:
    async def reached() -> Any:
        stats = await client.stats()
        return stats if condition(stats) else None

    return await waiting.until(reached, what="the counts are as expected")


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def ids_of(chunks: list[Chunk]) -> tuple[int, ...]:
    return tuple(token_id for chunk in chunks for token_id in chunk.token_ids)


def prompt_of(chunks: list[Chunk]) -> tuple[int, ...]:
    return next(chunk.prompt_token_ids for chunk in chunks if chunk.prompt_token_ids)


def test_streams_text_ids_finish_and_usage(shared_paced):
    chunks = run(shared_paced, lambda client: collect(client, request("a b {{bytes}} č", temperature=0)))
    assert text_of(chunks) == "a b č"
    assert ids_of(chunks) == tuple("a b č".encode())
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["stop"]
    assert chunks[-1].usage.completion_tokens == 6
    assert chunks[-1].usage.prompt_tokens == len(prompt_of(chunks))


def test_engine_without_ids_is_not_asked_for_them(shared_paced):
    chunks = run(shared_paced, lambda client: collect(client, request("a b")), Dialect(token_ids=False))
    assert text_of(chunks) == "a b"
    assert ids_of(chunks) == ()


def test_stop_string_is_in_the_output(shared_paced):
    chunks = run(shared_paced, lambda client: collect(client, request("one two three", stop=["wo"])))
    assert text_of(chunks) == "one two"
    assert chunks[-2].stop_reason == "wo"


@pytest.mark.parametrize("block", ["{{crash_at=5}}", "{{crash_at=5 bytes}}"])
def test_answer_continues_by_ids_on_another_engine(start_paced, block):
    content = block + " tři čtyři 驿 站 pět šest sedm"
    begun: list[Chunk] = []
    with pytest.raises(errors.EngineBroken):
        run(start_paced(), lambda client: collect(client, request(content), into=begun))
    continuation = Continuation(prompt_of(begun), ids_of(begun), text_of(begun))
    other = start_paced()
    rest = run(other, lambda client: collect(client, request(content, continuation=continuation, max_tokens=100)))
    assert text_of(begun) + text_of(rest) == "tři čtyři 驿 站 pět šest sedm"
    assert rest[-1].usage.prompt_tokens == len(continuation.prompt_token_ids) + 5


@pytest.mark.parametrize("dialect", [Dialect(), Dialect(token_ids=False)])
def test_answer_continues_by_text(shared_paced, dialect):
    begun: list[Chunk] = []
    with pytest.raises(errors.EngineBroken):
        run(shared_paced, lambda client: collect(client, request("{{cut_at=3}} a b c d e"), into=begun), dialect)
    ask = request("{{cut_at=3}} a b c d e", continuation=Continuation(text=text_of(begun)))
    rest = run(shared_paced, lambda client: collect(client, ask), dialect)
    assert text_of(begun) + text_of(rest) == "a b c d e"


@pytest.mark.parametrize(
    ("content", "params", "kind"),
    [
        ("{{fail=400}}", {}, errors.EngineRefused),
        ("{{fail=500}}", {}, errors.EngineServerError),
        ("{{fail=503}}", {}, errors.EngineServerError),
        ("{{oom}}", {}, errors.EngineOutOfMemory),
        ("{{cut_at=2}} a b c", {}, errors.EngineBroken),
        ("{{hang=0.05}}", {}, errors.EngineBroken),
        ("a", {"max_tokens": 5000}, errors.EngineRefused),
    ],
)
def test_failures_have_their_kind(shared_paced, content, params, kind):
    with pytest.raises(errors.EngineFailure) as caught:
        run(shared_paced, lambda client: collect(client, request(content, **params)))
    assert type(caught.value) is kind
    assert caught.value.fault is (kind is not errors.EngineRefused)


def test_context_refusal_says_so(shared_paced):
    with pytest.raises(errors.EngineRefused) as caught:
        run(shared_paced, lambda client: collect(client, request("a", max_tokens=5000)))
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")


def test_nobody_listens(tmp_path):
    async def main() -> None:
        client = EngineClient(model=MODEL, uds=tmp_path / "nothing")
        with pytest.raises(errors.EngineUnreachable):
            await collect(client, request("a"))
        with pytest.raises(errors.EngineUnreachable):
            await client.probe(timeout=5)
        await client.close()

    asyncio.run(main())


def test_first_token_that_does_not_come_is_a_stall_and_an_abort(paced):
    async def scenario(client: EngineClient) -> Any:
        with pytest.raises(errors.EngineStalled):
            await collect(client, request("{{ttft=60000}}"), first_token_timeout=0.2)
        return await until(client, lambda stats: stats.aborted == 1)

    assert run(paced, scenario).in_flight == 0


def test_stall_counts_from_the_last_token(paced):
    async def scenario(client: EngineClient) -> list[Chunk]:
        chunks: list[Chunk] = []
        with pytest.raises(errors.EngineStalled):
            await collect(client, request("{{tpot=60000}} a b"), into=chunks, token_timeout=0.2)
        return chunks

    assert text_of(run(paced, scenario)) == "a"


def test_slow_but_steady_answer_outlives_the_token_timeout(shared_paced):
    ask = request("{{tpot=100 tokens=12}}")
    chunks = run(shared_paced, lambda client: collect(client, ask, first_token_timeout=1, token_timeout=1))
    assert len(ids_of(chunks)) == 12


def test_answer_that_waited_while_we_stood_still_is_no_stall(shared_paced):
    async def scenario(client: EngineClient) -> list[Chunk]:
        chunks: list[Chunk] = []
        async with aclosing(
            client.stream(request("{{tpot=20}} a b c"), first_token_timeout=5, token_timeout=0.3)
        ) as stream:
            async for chunk in stream:
                chunks.append(chunk)
                if text_of(chunks) == "a":
                    asyncio.get_running_loop().call_soon(time_passes)
        return chunks

    def time_passes() -> None:
        import time

        time.sleep(0.5)

    assert text_of(run(shared_paced, scenario)) == "a b c"


def test_what_comes_while_a_flowing_stream_rests_is_read_in_one_go(shared_paced):
    async def scenario(client: EngineClient) -> tuple[list[Chunk], int]:
        loop, chunks, moments = asyncio.get_running_loop(), [], []
        ask = request("{{tpot=10 tokens=64}}")
        limits = {"first_token_timeout": 20, "token_timeout": 20}
        async with aclosing(client.stream(ask, **limits, rest=0.2)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
                moments.append(loop.time())
        return chunks, sum(after - before > 0.1 for before, after in itertools.pairwise(moments))

    chunks, rests = run(shared_paced, scenario)
    assert ids_of(chunks) == ids_of(run(shared_paced, lambda client: collect(client, request("{{tokens=64}}"))))
    assert 1 <= rests <= 6


def test_the_beginning_and_the_end_of_an_answer_do_not_rest(shared_paced):
    ask = request("{{tpot=20 tokens=3}}")
    chunks = run(shared_paced, lambda client: collect(client, ask, rest=3600))
    assert len(ids_of(chunks)) == 3
    assert chunks[-1].usage is not None


def test_leaving_a_stream_that_rests_aborts_the_generation(paced):
    async def scenario(client: EngineClient) -> Any:
        flowing = asyncio.Event()

        async def read() -> None:
            ask, count = request("{{tokens=1000 tpot=20}}"), 0
            limits = {"first_token_timeout": 20, "token_timeout": 20}
            async with aclosing(client.stream(ask, **limits, rest=3600)) as stream:
                async for _ in stream:
                    count += 1
                    if count == 5:
                        flowing.set()

        task = asyncio.create_task(read())
        await flowing.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await until(client, lambda stats: stats.aborted == 1)

    assert run(paced, scenario).in_flight == 0


@pytest.mark.parametrize("how", ["aclose", "cancel"])
def test_leaving_a_stream_aborts_the_generation(paced, how):
    async def scenario(client: EngineClient) -> Any:
        started = asyncio.Event()

        async def read(*, leave: bool) -> None:
            ask = request("{{tokens=1000 tpot=20}}")
            async with aclosing(client.stream(ask, first_token_timeout=20, token_timeout=20)) as stream:
                async for chunk in stream:
                    if chunk.text:
                        started.set()
                        if leave:
                            return

        task = asyncio.create_task(read(leave=how == "aclose"))
        await started.wait()
        if how == "cancel":
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await until(client, lambda stats: stats.aborted == 1)

    stats = run(paced, scenario)
    assert (stats.started, stats.finished, stats.in_flight) == (1, 0, 0)


def test_whole_answers_are_finished_and_share_connections(paced):
    async def scenario(client: EngineClient) -> Any:
        for _ in range(5):
            await collect(client, request("a b"))
        await asyncio.gather(*[collect(client, request("{{tokens=50}}")) for _ in range(32)])
        return await client.stats()

    stats = run(paced, scenario)
    assert (stats.finished, stats.aborted) == (37, 0)


def test_probe_is_answered_and_not_counted(paced):
    async def scenario(client: EngineClient) -> Any:
        await client.probe(timeout=10)
        return await client.stats(), await client.models()

    stats, models = run(paced, scenario)
    assert stats.started == 0
    assert models == (MODEL,)


def test_probe_fails_on_a_broken_and_on_a_frozen_engine(paced):
    async def scenario(client: EngineClient) -> None:
        paced.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(errors.EngineStalled):
                await client.probe(timeout=0.3)
        finally:
            paced.process.send_signal(signal.SIGCONT)
        with pytest.raises(errors.EngineServerError):
            await collect(client, request("{{sticky}}"))
        with pytest.raises(errors.EngineServerError):
            await client.probe(timeout=10)

    run(paced, scenario)


def test_probe_for_a_model_that_is_not_there_is_the_instances_fault(shared_paced):
    async def main() -> None:
        client = EngineClient(model="other", uds=shared_paced.socket)
        with pytest.raises(errors.EngineServerError):
            await client.probe(timeout=10)
        await client.close()

    asyncio.run(main())


def test_client_serves_the_replaced_process_too(start_paced, tmp_path):
    async def main() -> str:
        first = start_paced()
        async with open_client(first) as client:
            await collect(client, request("a"))
            first.process.kill()
            await asyncio.to_thread(first.process.wait, 20)
            second = PacedProcess(tmp_path, data=tmp_path / "data", name=first.socket.name)
            try:
                return text_of(await collect(client, request("again")))
            finally:
                second.close()

    assert asyncio.run(main()) == "again"


# --- servers that misbehave otherwise -----------------------------------------------------------------------------

TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


@contextlib.asynccontextmanager
async def odd_server(*pieces: bytes, then: asyncio.Event | None = None) -> AsyncIterator[EngineClient]:
    """A server on a port that streams these pieces, waits for `then`, and ends the body properly."""

    async def answer(http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(http)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        if then is not None:
            await then.wait()
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    client = EngineClient(model=MODEL, base_url=f"http://127.0.0.1:{port}/")
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


def read_odd(*pieces: bytes, **limits: float) -> list[Chunk]:
    async def main() -> list[Chunk]:
        async with odd_server(*pieces) as client:
            return await collect(client, request("a"), **limits)

    return asyncio.run(main())


def test_stream_that_ends_properly_but_early_is_broken():
    with pytest.raises(errors.EngineBroken):
        read_odd(TOKEN)
    with pytest.raises(errors.EngineBroken):
        read_odd(TOKEN, b"data: [DONE]\n\n")


def test_end_without_done_is_enough():
    assert [chunk.finish_reason for chunk in read_odd(TOKEN, FINISH)] == [None, "stop"]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (b'data: {"error":{"message":"CUDA out of memory","code":500}}\n\n', errors.EngineOutOfMemory),
        (b'data: {"error":{"message":"EngineDeadError","code":500}}\n\n', errors.EngineServerError),
        (b'data: {"error":{"message":"not with this template","code":400}}\n\n', errors.EngineRefused),
        (b"data: <html>\n\n", errors.EngineBroken),
    ],
)
def test_error_in_the_midst_of_a_stream(event, kind):
    with pytest.raises(kind) as caught:
        read_odd(TOKEN, event, b"data: [DONE]\n\n")
    assert type(caught.value) is kind


def test_comments_keep_no_stalled_stream_alive():
    async def main() -> None:
        end = asyncio.Event()
        async with odd_server(TOKEN, *[b": keep-alive\n\n"] * 20, then=end) as client:
            with pytest.raises(errors.EngineStalled):
                await collect(client, request("a"), token_timeout=0.2)

    asyncio.run(main())


def test_connection_left_open_after_done_ends_the_answer():
    async def main() -> list[Chunk]:
        async with odd_server(TOKEN, FINISH, b"data: [DONE]\n\n", then=asyncio.Event()) as client:
            return await collect(client, request("a"))

    assert text_of(asyncio.run(main())) == "x"
