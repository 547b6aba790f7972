"""What this process owes Redis as soon as it answers again.

A submit whose reply was lost was answered with 503, so it must not run: it is voided by the first command that goes to
Redis once Redis answers. A caller that hung up while Redis was away has its job cancelled as soon as that can be said.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import structlog

from app.errors import QueueUnavailable, StorageFull

_PAUSE = 0.25

_log = structlog.get_logger(__name__)


class Owed:
    """Job ids, each of which some command is owed. A thread works them off while there are any.

    Args:
        what: names the debt in the log.
        act: the command; safe to repeat; raises `QueueUnavailable` while Redis is away.
        limit: how many may be owed. In front of submits `settle` fails first while Redis is away, so debts cannot
            outnumber the requests that were under way when Redis left.
    """

    def __init__(self, what: str, act: Callable[[str], object], *, limit: int = 10_000) -> None:
        self._what = what
        self._act = act
        self._limit = limit
        self._jobs: deque[str] = deque()
        self._paying = threading.Lock()
        self._changing = threading.Lock()
        self._failed_at = 0.0
        self._worker: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job_id: str) -> None:
        """Owe a command for this job. Past the limit the oldest debt is dropped, and the log says so."""
        with self._changing:
            if len(self._jobs) >= self._limit:
                _log.error("debt_dropped", what=self._what, job=self._jobs.popleft())
            self._jobs.append(job_id)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work_off, name=self._what, daemon=True)
                self._worker.start()

    def settle(self) -> None:
        """Pay everything now.

        Raises:
            QueueUnavailable: Redis is still away. Those who waited meanwhile for the same answer get it at once.
        """
        if not self._jobs:
            return
        began = time.monotonic()
        with self._paying:
            if self._failed_at > began:
                raise QueueUnavailable("the queue does not answer just now", retry_after=2)
            self._pay()

    def _pay(self) -> None:
        while self._jobs:
            job_id = self._jobs[0]
            try:
                self._act(job_id)
            except (QueueUnavailable, StorageFull):
                self._failed_at = time.monotonic()
                raise
            except Exception:  # noqa: BLE001 -- whatever it was, it is in the log
                # It would fail for ever, and with it everything that has to wait for this debt.
                _log.exception("debt_unpayable", what=self._what, job=job_id)
                self._drop(job_id)
                continue
            self._drop(job_id)
            _log.info("debt_paid", what=self._what, job=job_id)

    def _drop(self, job_id: str) -> None:
        if self._jobs and self._jobs[0] == job_id:
            self._jobs.popleft()

    def _work_off(self) -> None:
        while not self._all_paid():
            try:
                self.settle()
            except (QueueUnavailable, StorageFull):
                time.sleep(_PAUSE)

    def _all_paid(self) -> bool:
        with self._changing:
            if not self._jobs:
                self._worker = None
            return self._worker is None
