"""A webhook worker process: sends what is due, and reaps like every worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from app.hints import Hints
from app.queueing import WEBHOOKS_QUEUE
from app.settings import Settings
from app.webhooks.transport import AiohttpTransport
from workers import leaving, revoking, wiring
from workers.consuming import Consuming
from workers.deliveries import Courier, drain
from workers.gpu_process import refuse_other_pools
from workers.loop import LoopThread
from workers.process import WrongQueueError
from workers.reaper import Reaper


class WebhookProcess:
    """Implements `workers.process.WorkerProcess` for deliveries."""

    def __init__(self, settings: Settings, hints: Hints) -> None:
        self._settings = settings
        self._hints = hints
        self._loop = LoopThread()
        self._courier: Courier | None = None
        self._consuming: Consuming | None = None
        self._transport: AiohttpTransport | None = None
        self._stopping = threading.Event()
        self._busy = _Busy()
        self._leaving = leaving.Leaving(self._drain, self._hurried)

    def boot(self, worker: Any) -> None:
        refuse_other_pools(worker)
        revoking.install(wiring.job_store(self._settings))
        self._leaving.install()
        self._courier = wiring.courier(self._settings)
        self._loop.start()
        self._loop.submit(self._reap()).add_done_callback(_reaping_ended)

    async def _reap(self) -> None:
        work = wiring.work_store(self._settings)
        await Reaper(work, self._hints, self._settings.jobs.reaper_tick_seconds).run()

    def consuming(self, consumer: Any) -> None:
        self._consuming = self._consuming or Consuming(consumer, (WEBHOOKS_QUEUE,))

    def run_hint(self, task_id: str) -> dict[str, Any]:
        raise WrongQueueError(f"the webhook worker got task {task_id} of a GPU queue; start it by `posthouse webhooks`")

    def deliver(self) -> dict[str, Any]:
        if self._courier is None or self._stopping.is_set():
            return {"stopping": 1}
        with self._busy:
            return self._loop.run(self._deliver(self._courier))

    async def _deliver(self, courier: Courier) -> dict[str, int]:
        if self._transport is None:  # kept: each new one would cost a TLS context
            self._transport = await wiring.transport(self._settings).__aenter__()
        return await drain(courier, self._transport, self._stopping.is_set)

    def _drain(self, done: Callable[[], None]) -> None:
        """Attempts under way end by their own timeout; what is not settled is due again when its claim runs out."""
        self._stopping.set()
        if self._consuming is not None:
            self._consuming.pause()
        self._busy.wait_until_idle(self._settings.jobs.drain_grace_seconds)
        done()

    def _hurried(self) -> None:
        """A second signal: claims that are not settled run out and are due again."""
        self._leaving.finish()


def _reaping_ended(reaping: Future[None]) -> None:
    """The reaper waits out every absence of Redis, so whatever ended it is a fault."""
    if not reaping.cancelled():
        leaving.fault(f"the reaper ended: {reaping.exception()!r}")


class _Busy:
    """Counts runs under way, so that leaving can wait for all of them."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_until_idle(self, seconds: float) -> bool:
        """Whether nothing was under way any more within this time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, seconds)
