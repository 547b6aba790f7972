"""A GPU worker: one instance, the generations that run on it, and everything that keeps both honest.

Lives on the worker's loop. Celery's side (threads, consumer, signals) is in `gpu_process`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import structlog
from redis.exceptions import RedisError

from app.jobs.work import WorkStore
from app.redis import REDIS_AWAY
from model_pool.breaker import BreakerState
from model_pool.instance import Instance, InstanceState
from model_pool.registry import BEAT_SECONDS, Beat, Heard, Registry
from workers.engine_counts import counts_of
from workers.facts import Facts
from workers.flusher import Flusher
from workers.inference import Inference
from workers.reaper import Reaper
from workers.speed import Speed
from workers.terms import Report
from workers.trust import Trust
from workers.waiting import within

_log = structlog.get_logger(__name__)
_REFUSED_SECONDS = 0.25  # between two questions for a probe's place that somebody else has
_REPLACED_SECONDS = 5.0  # an ordered end of a process shows in its instance's state at once, if at all
_SAYS_NOTHING_BAD = frozenset({None, "completed", "incomplete"})


class GpuWorker:
    """Runs instance, flusher, heartbeat and reaper as tasks of one loop.

    Args:
        on_available: called with whether new work may come, at each change.
        on_fatal: called with a reason when one of those tasks ends by an error: the process is of no more use.
    """

    def __init__(
        self,
        facts: Facts,
        *,
        instance: Instance,
        inference: Inference,
        work: WorkStore,
        flusher: Flusher,
        registry: Registry,
        reaper: Reaper,
        trust: Trust,
        on_available: Callable[[bool], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self.facts = facts
        self.instance = instance
        self.inference = inference
        self._work = work
        self._flusher = flusher
        self._registry = registry
        self._reaper = reaper
        self._trust = trust
        self._on_available = on_available
        self._on_fatal = on_fatal
        self._was_available = False
        self._tasks: list[asyncio.Task[None]] = []
        self._beat_now = asyncio.Event()
        self._speed = Speed()
        self._heard = False
        self._breaker = BreakerState.CLOSED
        self._probing = 0
        self._drained = False
        self._restarts: int | None = None
        self._restarting: asyncio.Task[None] | None = None
        self.draining = False

    @property
    def in_flight(self) -> int:
        return len(self._flusher.runs)

    @property
    def available(self) -> bool:
        """Whether the instance may get new work: it stands in the ring."""
        match self._breaker:
            case BreakerState.OPEN:
                return False
            case BreakerState.HALF_OPEN:
                return self._healthy and self._probing < self.facts.probes
        return self._healthy

    @property
    def _healthy(self) -> bool:
        """Before the fleet has answered a beat nobody knows what is wished of the instance."""
        ready = self.instance.state is InstanceState.READY and self._heard
        return ready and not self._trust.doubted and not self._resting

    @property
    def _resting(self) -> bool:
        """Taken out by somebody's wish: the process is leaving, or operators have drained or are restarting it."""
        return self.draining or self._drained or self._restarting is not None

    @property
    def able(self) -> bool:
        """Whether a message that came now would be run."""
        return self.available and self.in_flight < self.facts.capacity

    async def start(self) -> None:
        for name, work in (
            ("instance", self.instance.run()),
            ("flusher", self._flusher.run()),
            ("heartbeat", self._beats()),
            ("reaper", self._reaper.run()),
        ):
            self._spawn(name, work)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self.draining:
            return
        error = task.exception()
        _log.error("worker_part_ended", part=task.get_name(), error=repr(error) if error else None)
        self._on_fatal(f"{task.get_name()}: {error}")

    def state_changed(self) -> None:
        """The instance's state or our trust in it changed: the fleet hears of it at once."""
        self._beat_now.set()
        if self.available is not self._was_available:
            self._was_available = self.available
            self._on_available(self.available)

    async def unhinted_generations(self, queues: Sequence[str]) -> int:
        """Generations of the model that wait without a message in these queues; behind a half-open breaker, one."""
        waiting = await self._work.waiting(self.facts.model)
        if self._breaker is BreakerState.HALF_OPEN:
            return min(waiting, 1)
        return max(0, waiting - await self._work.waiting_messages(queues))

    async def waiting_messages(self, queues: Sequence[str]) -> int:
        """Messages that lie unread in these queues."""
        return await self._work.waiting_messages(queues)

    async def run_hint(self, task_id: str) -> Report:
        if not self.available:
            await self.inference.pass_on()
            return {"ran": None, "why": "draining" if self.draining else "instance unavailable"}
        if self._breaker is BreakerState.HALF_OPEN:
            return await self._run_probe(task_id)
        report = await self.inference.run_hint(task_id)
        if report.get("outcome") not in _SAYS_NOTHING_BAD:
            self._beat_now.set()  # the breaker may have moved
        return report

    async def _run_probe(self, task_id: str) -> Report:
        """While as many runs as may are under way no messages are taken, which others could run."""
        self._probing += 1
        self.state_changed()
        try:
            report = await self.inference.run_hint(task_id)
            if report.get("ran") is None:  # the fleet has no place for a probe now; it is not asked again at once
                await asyncio.sleep(_REFUSED_SECONDS)
            return report
        finally:
            self._probing -= 1
            self.state_changed()

    async def drain(self, grace: float, hurry: asyncio.Event) -> None:
        """Leave the ring, let what ends within `grace` seconds end, hand the rest back, stop the instance."""
        self.draining = True
        self.state_changed()
        await self._empty(grace, hurry)
        await self.instance.stop(grace=2.0)
        await self._leave()
        for task in self._tasks:
            task.cancel()

    async def _empty(self, grace: float, hurry: asyncio.Event) -> None:
        """Nothing runs any more: what ended within the grace period is done, the rest is back in line."""
        _log.info("draining", in_flight=self.in_flight, grace=grace)
        await self._wait_for_runs(grace, hurry)
        left = self._flusher.runs
        for run in left:
            run.draining = True
            if run.task is not None and not run.closing:  # its answer is there and only has to be written
                run.task.cancel()
        await within(5.0, lambda: not self._flusher.runs)
        _log.info("drained", handed_back=len(left))

    async def _restart(self) -> None:
        """Operators ordered it: empty the instance, start its process anew, take work again."""
        try:
            await self._empty(self.facts.restart_grace, asyncio.Event())
            self.instance.replace("ordered")
            await within(_REPLACED_SECONDS, lambda: self.instance.state is not InstanceState.READY)
        finally:
            self._restarting = None
            self.state_changed()

    async def _wait_for_runs(self, grace: float, hurry: asyncio.Event) -> None:
        """Claims that were sent before the drain began may still be granted, so they are waited for as well."""
        end = time.monotonic() + grace
        while self.inference.busy and time.monotonic() < end:
            with suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), 0.05)
                return

    async def _leave(self) -> None:
        try:
            await self._registry.leave(self.instance.spec.id, self.facts.model)
        except (*REDIS_AWAY, RedisError) as error:
            _log.warning("instance_not_deregistered", error=type(error).__name__)  # its heartbeat runs out by itself

    async def _beats(self) -> None:
        while True:
            try:
                beat = await self._beat()
                self._beat_now.clear()
                self._hear(await self._registry.beat(beat))
                if not self.available:
                    await self._work.forward(beat.model, beat.id, beat.slot)
            except (*REDIS_AWAY, RedisError) as error:
                _log.debug("heartbeat_missed", error=type(error).__name__)
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._beat_now.wait()
            except TimeoutError:
                continue

    def _hear(self, heard: Heard) -> None:
        """What the fleet thinks of our instance and what operators want of it."""
        first, self._heard = not self._heard, True
        self._obey(heard)
        self._heed(heard.breaker)
        if first:
            self.state_changed()

    def _obey(self, heard: Heard) -> None:
        if heard.drained is not self._drained:
            self._drained = heard.drained
            _log.info("drain_ordered" if heard.drained else "resume_ordered", instance=self.instance.spec.id)
            self.state_changed()
        ordered = self._restarts is not None and heard.restarts > self._restarts
        self._restarts = heard.restarts
        if ordered and self._restarting is None:
            _log.info("restart_ordered", instance=self.instance.spec.id)
            self._restarting = asyncio.create_task(self._restart())
            self.state_changed()

    def _heed(self, breaker: BreakerState) -> None:
        """Work that waited behind the breaker starts as soon as it closes."""
        if breaker is self._breaker:
            return
        _log.warning("breaker_moved", instance=self.instance.spec.id, old=self._breaker.value, new=breaker.value)
        self._breaker = breaker
        closed = breaker is BreakerState.CLOSED
        if self.available is not self._was_available or (closed and self.available):
            self._was_available = self.available
            self._on_available(self.available)

    async def _beat(self) -> Beat:
        facts = self.facts
        counts = await counts_of(self.instance, self.inference.counts, asked=facts.server_counts)
        return Beat(
            id=self.instance.spec.id,
            model=facts.model,
            slot=facts.slot,
            revision=facts.revision,
            engine=facts.engine,
            device=facts.device,
            state=self._state(),
            available=self._healthy,
            capacity=facts.capacity,
            in_flight=self.in_flight,
            tokens_per_second=self._speed.of(self.inference.counts.tokens),
            started=counts.started,
            finished=counts.finished,
            aborted=counts.aborted,
            pid=self.instance.pid or 0,
            policy=facts.policy,
        )

    def _state(self) -> str:
        if not self._resting or self.instance.state is not InstanceState.READY:
            return self.instance.state.value
        return "drained" if self._drained and not self.in_flight else "draining"
