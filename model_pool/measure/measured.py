"""One engine from its start to its end, measured."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from model_pool import engines
from model_pool.client import EngineClient
from model_pool.health import HealthPolicy
from model_pool.instance import Instance, InstanceState
from model_pool.measure import load
from model_pool.measure.subjects import STREAMS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from model_pool.measure.subjects import Subject
    from model_pool.spec import InstanceSpec

_START_SECONDS = 600.0
# Nothing is measured while it is busy, so nobody needs to be in a hurry with it.
_PATIENT = HealthPolicy(probe_seconds=3600, probe_timeout_seconds=60, start_seconds=_START_SECONDS)


@dataclass(frozen=True)
class Measured:
    """What one engine did.

    Attributes:
        start: seconds from its start to its first answer, files in the page cache.
        first: seconds to the first token of a prompt of about a hundred tokens, alone.
        alone, together: tokens a second after the first token, alone; and of all streams at once.
        memory: bytes of all its processes after the load, shared pages counted once (PSS).
    """

    start: float
    first: float
    alone: float
    together: float
    memory: int


def measure(subject: Subject, models: Path, tell: Callable[[str], None]) -> Measured:
    """Run one engine; takes a minute or two, and all cores.

    Raises:
        QuantizeError: its weights cannot be built.
        RuntimeError: it has not started.
    """
    tell("weights")
    with tempfile.TemporaryDirectory(prefix="measure-") as folder:
        return asyncio.run(_measure(subject.spec(models, Path(folder)), tell))


async def _measure(spec: InstanceSpec, tell: Callable[[str], None]) -> Measured:
    began = time.monotonic()
    tell("start")
    async with _running(spec) as instance:
        start = time.monotonic() - began
        tell("one answer at a time")
        alone = await load.alone(instance.client)
        tell(f"{STREAMS} answers at once")
        together = await load.together(instance.client, STREAMS)
        return Measured(start, alone.first, alone.pace, together, _memory(instance.pid))


@asynccontextmanager
async def _running(spec: InstanceSpec) -> AsyncIterator[Instance]:
    engine, ready = engines.get(spec.model.engine), asyncio.Event()
    instance = Instance(
        spec,
        engine,
        health=_PATIENT,
        client_factory=lambda found: EngineClient.at(engine.endpoint(found)),
        on_state=lambda state: ready.set() if state is InstanceState.READY else None,
    )
    task = asyncio.create_task(instance.run())
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({task, waiting}, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            raise RuntimeError(f"engine {spec.model.engine} has not started; its lines above say why")
        yield instance
    finally:
        waiting.cancel()
        await instance.stop(2)
        await task


def _memory(pid: int | None) -> int:
    if pid is None:
        return 0
    server = psutil.Process(pid)
    return sum(process.memory_full_info().pss for process in [server, *server.children(recursive=True)])
