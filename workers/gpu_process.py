"""A GPU worker process: Celery's threads on one side, the loop with the instance on the other."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import structlog
from celery.concurrency.thread import TaskPool
from redis.exceptions import RedisError

from app import garbage
from app import settings as configuration
from app.hints import Hints
from app.queueing import own_queue, shared_queue
from app.redis import REDIS_AWAY
from app.services.catalogue import Catalogue
from app.services.following_models import ModelWatch
from app.settings import Settings
from workers import leaving, revoking, wiring
from workers.consuming import Consuming, Stillness
from workers.gpu_worker import GpuWorker
from workers.loop import LoopThread
from workers.process import WrongQueueError

_LOOK_SECONDS = 1.0
# Python's 5 ms are too long where one thread carries tokens: it may wait as long for each turn of Celery's threads.
_SWITCH_SECONDS = 0.0005
_MOST_HINTS = 256
_log = structlog.get_logger(__name__)


class UnsupportedPoolError(SystemExit):
    """The worker was started with a Celery pool that cannot work here."""


class GpuProcess:
    """Implements `workers.process.WorkerProcess` for a model's instance."""

    def __init__(self, settings: Settings, hints: Hints) -> None:
        self._settings = settings
        self._hints = hints
        self._models = Catalogue(settings.models)
        self._loop = LoopThread()
        self._ready = threading.Event()
        self._worker: GpuWorker | None = None
        self._consuming: Consuming | None = None
        self._nudging: asyncio.Future[None] | None = None
        self._stillness = Stillness(settings.jobs.not_consuming_seconds)
        self._hurry = asyncio.Event()
        self._leaving = leaving.Leaving(self._drain, self._hurried)

    def boot(self, worker: Any) -> None:
        """Start the instance and wait until it is ready, or until the process is told to stop."""
        refuse_other_pools(worker)
        sys.setswitchinterval(_SWITCH_SECONDS)
        revoking.install(wiring.job_store(self._settings))
        self._leaving.install()
        self._loop.start()
        ModelWatch(self._models, stamp=configuration.file_stamp, load=lambda: configuration.load().models).start()
        self._loop.run(self._start())
        while not self._ready.wait(0.2):
            if self._leaving.over.is_set():
                raise SystemExit(0)
        garbage.settle()
        _log.info("worker_ready", model=self._settings.worker.model, slot=self._settings.worker.slot)

    async def _start(self) -> None:
        self._worker = wiring.gpu_worker(
            self._settings, self._hints, self._models, on_available=self._availability, on_fatal=leaving.fault
        )
        await self._worker.start()

    def _availability(self, available: bool) -> None:
        """Called on the loop. Work that waited for this instance starts at once."""
        if available:
            self._ready.set()
        if self._consuming is None or self._leaving.asked.is_set():
            return
        if available:
            self._consuming.resume()
            self._nudging = asyncio.ensure_future(self._nudge())
        else:
            self._consuming.pause()

    async def _nudge(self) -> None:
        """Hints for what stands in line: those published meanwhile may be lost."""
        worker, consuming = self._worker, self._consuming
        if worker is None or consuming is None:
            return
        try:
            count = await worker.unhinted_generations(consuming.queues)
        except (*REDIS_AWAY, RedisError):
            return  # the reaper will see to it when Redis is back
        # What this instance cannot take at once may be run by any.
        own = worker.facts.capacity - worker.in_flight
        for number in range(min(count, _MOST_HINTS)):
            slot = worker.facts.slot if number < own else None
            if not await asyncio.to_thread(self._hints.publish_run, worker.facts.model, "gen_waiting", slot):
                return

    def consuming(self, consumer: Any) -> None:
        first = self._consuming is None
        name, slot = self._settings.worker.model, self._settings.worker.slot
        self._consuming = self._consuming or Consuming(consumer, (own_queue(name, slot), shared_queue(name)))
        if first:
            self._loop.submit(self._watch())
            self._loop.submit(self._begin())

    async def _begin(self) -> None:
        """Consuming begins; the instance may have failed or been drained since it was ready."""
        if self._worker is not None and self._consuming is not None and not self._worker.available:
            self._consuming.pause()
        else:
            await self._nudge()

    async def _watch(self) -> None:
        """End the process when it is connected and able but receives nothing of what lies in its queues."""
        worker, consuming = self._worker, self._consuming
        if worker is None or consuming is None:
            raise RuntimeError("nothing to watch before the worker has booted")
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            able = worker.able and not consuming.paused
            try:
                waiting = await worker.waiting_messages(consuming.queues) if able else 0
            except (*REDIS_AWAY, RedisError):
                waiting = 0  # away for us too: nobody consumes now
            if self._stillness.look(waiting=waiting, able=able):
                leaving.fault(f"{waiting} messages lie in our queues and none was received; replacing this worker")

    def run_hint(self, task_id: str) -> dict[str, Any]:
        self._stillness.received()
        if self._worker is None:
            return {"ran": None, "why": "booting"}
        return self._loop.run(self._worker.run_hint(task_id))

    def deliver(self) -> dict[str, Any]:
        raise WrongQueueError("a GPU worker consumes the webhooks queue; start it by `posthouse worker MODEL`")

    def _drain(self, done: Callable[[], None]) -> None:
        if self._consuming is not None:
            self._consuming.pause()
        if self._worker is not None:
            future = self._loop.submit(self._worker.drain(self._settings.jobs.drain_grace_seconds, self._hurry))
            future.add_done_callback(lambda ended: self._drained(ended.exception(), done))
        else:
            done()

    def _drained(self, error: BaseException | None, done: Callable[[], None]) -> None:
        if error is not None:
            leaving.fault(f"the drain failed: {error!r}")
        done()

    def _hurried(self) -> None:
        self._loop.call(self._hurry.set)


def refuse_other_pools(worker: Any) -> None:
    """Only threads can wait on the loop that carries the streams.

    Raises:
        UnsupportedPoolError: naming the pool that works.
    """
    pool = worker.pool_cls
    if not (isinstance(pool, type) and issubclass(pool, TaskPool)):
        found = getattr(pool, "__module__", str(pool)).rsplit(".", 1)[-1]
        msg = (
            f"Celery pool {found!r} cannot run Posthouse's tasks: forked or green workers cannot share the loop that "
            "carries the streams, and time limits would not hold. Start the worker by `posthouse worker MODEL`, or "
            "with `--pool threads`."
        )
        raise UnsupportedPoolError(msg)
