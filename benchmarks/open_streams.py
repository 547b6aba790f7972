"""What an open event stream costs an API process: memory, and whether Redis connections grow with streams.

A thousand jobs of their own wait behind one that never ends, and each one's event stream is followed over HTTP. The
memory is the resident set of the one gunicorn worker before and after; connections are counted by Redis (CLIENT LIST).
A burst of polls comes first, so that the process's bounded pool of connections is full before anything is counted:
what is added afterwards is added by streams.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from benchmarks.support.figures import Figure, Outcome
from benchmarks.support.progress import Progress
from tests.support.stack import KEY, Stack
from tests.support.waiting import wait_until

STREAMS = 1000
FEW = 50
_AT_ONCE = 20
_POLLS_AT_ONCE = 200
_LIMIT = 60.0
CONFIG = """
[models.paced]
engine = "paced"
max_concurrency = 1
[jobs]
deadline_seconds = 3600
longest_run_seconds = 3600
visibility_timeout_seconds = 7200
"""


@dataclass(frozen=True)
class Load:
    """What so many open streams take: resident bytes of the API process, and connections to Redis."""

    streams: int
    memory: int
    connections: int


def measure(progress: Progress, *, streams: int = STREAMS) -> Outcome:
    """Open a few streams, then all of them."""
    progress("the stack starts")
    stack = Stack(CONFIG)
    try:
        progress(f"{streams} jobs are submitted")
        client = stack.client()
        texts = ["{{hang=3000}}", *(f"order {number}" for number in range(1, streams))]
        jobs = [client.responses.create(model="paced", input=text, background=True).id for text in texts]
        progress(f"{streams} streams are opened")
        few, many = asyncio.run(_open_all(stack, jobs))
    finally:
        stack.stop()
    per_stream = (many.memory - few.memory) / (many.streams - few.streams) / 1024
    return Outcome(
        f"{streams} open event streams in one API process",
        (
            Figure("memory a stream", per_stream, unit="KiB"),
            Figure("memory of the process with all of them", many.memory / 2**20, unit="MiB"),
            Figure(f"Redis connections with {few.streams} streams", few.connections),
            Figure(f"Redis connections with {many.streams} streams", many.connections),
            Figure("connections that the other streams added", many.connections - few.connections, at_most=0),
        ),
        {"streams": streams, "endpoint": "/v1/responses/{id}?stream=true"},
    )


async def _open_all(stack: Stack, jobs: list[str]) -> tuple[Load, Load]:
    await asyncio.gather(*(_poll(urlsplit(stack.url).port or 0, jobs[0]) for _ in range(_POLLS_AT_ONCE)))
    async with contextlib.AsyncExitStack() as opened:
        await _open(stack, jobs[:FEW], opened)
        few = _load(stack, FEW)
        await _open(stack, jobs[FEW:], opened)
        return few, _load(stack, len(jobs))


async def _open(stack: Stack, jobs: list[str], opened: contextlib.AsyncExitStack) -> None:
    """Open streams, some at a time; returns once each has said that its job is queued."""
    port = urlsplit(stack.url).port or 0
    for at in range(0, len(jobs), _AT_ONCE):
        streams = [opened.enter_async_context(_stream(port, job)) for job in jobs[at : at + _AT_ONCE]]
        await asyncio.wait_for(asyncio.gather(*streams), _LIMIT)


@contextlib.asynccontextmanager
async def _stream(port: int, job: str) -> AsyncIterator[None]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(_get(f"/v1/responses/{job}?stream=true"))
        await reader.readuntil(b"event: response.queued")
        yield
    finally:
        writer.close()


async def _poll(port: int, job: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_get(f"/v1/responses/{job}"))
    await asyncio.wait_for(reader.readuntil(job.encode()), _LIMIT)
    writer.close()


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: benchmark\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()


def _load(stack: Stack, streams: int) -> Load:
    worker = wait_until(lambda: psutil.Process(stack.pid_of("api")).children(), what="gunicorn's worker runs")[0]
    return Load(streams, worker.memory_info().rss, len(stack.redis().client_list()))
