"""One model instance: a server process that is started, watched, restarted and stopped, on the worker's one loop."""

from __future__ import annotations

import asyncio
import random as chance
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from model_pool import slots
from model_pool.health import Backoff, HealthPolicy, Pulse
from model_pool.kept_process import KeptProcess, inherited
from model_pool.no_process import NoProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from model_pool.client import EngineClient
    from model_pool.engines import Engine
    from model_pool.spec import InstanceSpec

_log = structlog.get_logger(__name__)

# How often a starting server is asked for its first token: a refused connection costs next to nothing.
_LOOK_SECONDS = 0.1
_RESTART_GRACE_SECONDS = 1.0


class InstanceState(StrEnum):
    """Where an instance is in its life; only a `ready` one gets work."""

    STARTING = "starting"
    READY = "ready"
    UNHEALTHY = "unhealthy"
    RESTARTING = "restarting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class _Ending:
    """Why a run of the server is over.

    Attributes:
        reason: a word for the log.
        grace: seconds that the server gets to end by itself; a hung one would not use them.
        at_once: whether the next start need not wait, if nothing else has failed lately.
    """

    reason: str
    grace: float = 0.0
    at_once: bool = False


class Instance:
    """Supervises one server for as long as `run` runs. All methods belong on the loop that runs it.

    Attributes:
        spec: what is served, and where.
        state: reported to `on_state` at each change.
        restarts: starts after the first.
    """

    def __init__(
        self,
        spec: InstanceSpec,
        engine: Engine,
        *,
        health: HealthPolicy,
        client_factory: Callable[[InstanceSpec], EngineClient],
        on_state: Callable[[InstanceState], None],
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self.spec = spec
        self.state = InstanceState.STOPPED
        self.restarts = 0
        self._engine = engine
        self._health = health
        self._client_factory = client_factory
        self._on_state = on_state
        self._clock = clock
        self._client: EngineClient | None = None
        self._process: KeptProcess | NoProcess | None = None
        self._pulse = Pulse(health, clock())
        self._backoff = Backoff(health, random)
        self._ready_at: float | None = None
        self._suspected = asyncio.Event()
        self._order: asyncio.Future[_Ending] | None = None
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stopped.set()
        self._log = _log.bind(instance=spec.id, engine=engine.name)

    @property
    def client(self) -> EngineClient:
        """The client of the server's socket; one for all of the server's restarts.

        Raises:
            RuntimeError: `run` has not begun.
        """
        if self._client is None:
            msg = f"instance {self.spec.id} does not run"
            raise RuntimeError(msg)
        return self._client

    @property
    def pid(self) -> int | None:
        """The server's process; None while there is none, and always where somebody else runs the server."""
        return self._process.pid if self._process else None

    async def run(self) -> None:
        """Keep a server up until `stop`; ends with no process left.

        Raises:
            EngineConfigError: the engine cannot serve this model as configured; trying again would not help.
        """
        self._engine.check(self.spec)
        self._stopped.clear()
        self._client = self._client_factory(self.spec)
        try:
            while not self._stopping.is_set():
                await self._run_once()
        finally:
            await self._client.close()
            self._move(InstanceState.STOPPED)
            self._stopped.set()

    async def stop(self, grace: float) -> None:
        """End the server, by force `grace` seconds after SIGTERM, and let `run` return. Safe to call again."""
        self._stopping.set()
        self._give_order(_Ending("stopped", grace))
        await self._stopped.wait()

    def token_seen(self) -> None:
        """A stream of this instance gave something: it is alive."""
        self._pulse.token(self._clock())

    def suspect(self, reason: str) -> None:
        """A stream stalled or broke: probe at once."""
        self._log.warning("instance_suspected", reason=reason)
        self._pulse.suspect(self._clock())
        self._suspected.set()

    def replace(self, reason: str) -> None:
        """End the server now, without grace, and start another: it hangs, or it will not come right by itself."""
        self._give_order(_Ending(reason, at_once=True))

    def _give_order(self, order: _Ending) -> None:
        if self._order is not None and not self._order.done():
            self._order.set_result(order)

    async def _run_once(self) -> None:
        """From a start of the server to the moment when the next one may begin."""
        self._order = asyncio.get_running_loop().create_future()
        self._ready_at = None
        self._move(InstanceState.STARTING)
        ending = await self._serve()
        self._backoff.ended(self._clock() - self._ready_at if self._ready_at is not None else 0.0)
        if not self._stopping.is_set():
            await self._pause(ending)

    async def _pause(self, ending: _Ending) -> None:
        self._move(InstanceState.RESTARTING)
        at_once = ending.at_once and self._backoff.is_first
        delay = self._backoff.next_delay()
        self.restarts += 1
        self._log.info("instance_restarting", seconds=0.0 if at_once else round(delay, 3), restarts=self.restarts)
        if not at_once:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    async def _serve(self) -> _Ending:
        """One run of the server; nothing of it is left afterwards."""
        began = self._clock()
        try:
            self._process = await self._start()
        except OSError as error:
            self._log.warning("instance_not_started", error=str(error))
            return _Ending("not_started")
        ending = _Ending("cancelled")
        try:
            ending = await _first(self._exited(self._process), self._watched(began), self._ordered(self._order))
        finally:
            await self._end(self._process, ending)
        return ending

    async def _start(self) -> KeptProcess | NoProcess:
        # The socket has no password: the folder's mode says who may connect.
        self.spec.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = self._engine.command(self.spec)
        if command is None:
            return NoProcess()
        environment = inherited(self._engine.environment(self.spec))
        await asyncio.to_thread(slots.end_recorded, self.spec.record)
        self.spec.socket.unlink(missing_ok=True)  # a stale one would stop some servers from binding
        # A server that was killed leaves temporary files behind, at every restart.
        shutil.rmtree(self.spec.scratch, ignore_errors=True)
        self.spec.scratch.mkdir(exist_ok=True)
        process = await KeptProcess.start(command, environment, self.spec.record)
        self._log.info("instance_process_started", pid=process.pid)
        return process

    async def _end(self, process: KeptProcess | NoProcess, ending: _Ending) -> None:
        if not self._stopping.is_set():
            self._move(InstanceState.RESTARTING)
        status = await process.end(ending.grace)
        self._process = None
        log = self._log.info if self._stopping.is_set() else self._log.warning
        log("instance_ended", reason=ending.reason, status=status, pid=process.pid)

    @staticmethod
    async def _exited(process: KeptProcess | NoProcess) -> _Ending:
        await process.wait()
        return _Ending("exited")

    @staticmethod
    async def _ordered(order: asyncio.Future[_Ending] | None) -> _Ending:
        if order is None:
            msg = "orders are taken only while a server runs"
            raise RuntimeError(msg)
        return await order

    async def _watched(self, began: float) -> _Ending:
        """Wait for the first answer, then see to it that tokens keep coming; returns when they do not."""
        try:
            async with asyncio.timeout(self._health.start_seconds):
                while await self._probe_error():  # noqa: ASYNC110 -- a starting server announces nothing
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return _Ending("start_timeout")
        self._ready_at = self._clock()
        self._pulse = Pulse(self._health, self._ready_at)
        self._log.info("instance_ready", seconds=round(self._ready_at - began, 3))
        self._move(InstanceState.READY)
        while not self._pulse.sick:
            await self._until_due()
            await self._probe()
        self._move(InstanceState.UNHEALTHY)
        return _Ending("no_progress")

    async def _until_due(self) -> None:
        while (seconds := self._pulse.due_in(self._clock())) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._suspected.wait(), seconds)
            self._suspected.clear()

    async def _probe(self) -> None:
        started = self._clock()
        error = await self._probe_error()
        if not error:
            self._pulse.token(self._clock())
            return
        self._pulse.probe_failed(started)
        self._log.warning("instance_probe_failed", error=error)

    async def _probe_error(self) -> str:
        """Ask for one token; empty if it came in time, else what went wrong."""
        timeout = self._health.probe_timeout_seconds
        try:
            async with asyncio.timeout(timeout):
                await self.client.probe(timeout=timeout)
        except Exception as error:  # noqa: BLE001 -- however a probe fails, it is counted and logged
            return type(error).__name__
        return ""

    def _move(self, state: InstanceState) -> None:
        if state is self.state:
            return
        self.state = state
        self._log.info("instance_state", state=state.value)
        self._on_state(state)


async def _first(*ways: Coroutine[None, None, _Ending]) -> _Ending:
    """Run all, return what the first to end says (the first in order if several do), and cancel the others."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
