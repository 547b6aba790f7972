"""Following one job to its end: its generation's events, its own early leave, Redis' absences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.errors import QueueUnavailable
from app.jobs.events import Event
from app.jobs.job import JobView
from app.jobs.messages import Left
from app.jobs.store import JobStore
from app.jobs.tail import Item, Sign, Tail

TICK_SECONDS = 0.5
_PAST_DEADLINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing happened for a tick."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job's end: its final state, and the sequence number of its terminal event."""

    view: JobView
    sequence: int


Step = list[Event] | Waiting | Ended


class Following:
    """One job's way to its end.

    Bounded: a minute after the job's deadline it gives up, because then nobody is there to end it.
    """

    def __init__(self, store: JobStore, job: JobView, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._job = job
        self._monotonic = monotonic
        self._give_up = monotonic() + (job.deadline_at - job.now) / 1000 + _PAST_DEADLINE_SECONDS
        self._look_due = False
        self._leaves_at: int | None = None
        self._end: int | None = None

    def steps(self, tail: Tail) -> Iterator[Step]:
        """Batches of events in order, each once, `Waiting` at every quiet tick, and `Ended` last.

        Raises:
            JobNotFound: the job is no longer kept.
            QueueUnavailable: it gave up.
        """
        for item in tail.follow(tick=TICK_SECONDS):
            step = self._take(item)
            if step:
                yield step
            if self._look_due:
                self._look(tail)
            if self._complete(tail):
                yield from self._ended()
                return

    def _take(self, item: Item) -> Step | None:
        if isinstance(item, list):
            return self._own_part(item)
        if isinstance(item, Left):
            if item.job == self._job.id:
                self._leaves_at = item.end
            return None
        if item is Sign.RESYNCED:
            self._look_due = True
            return None
        self._check_time()
        return Waiting()

    def _own_part(self, batch: list[Event]) -> list[Event]:
        leaves_at = self._leaves_at
        own = batch if leaves_at is None else [e for e in batch if e.sequence < leaves_at]
        if own and own[-1].ends:
            self._end = own[-1].sequence
        return own

    def _look(self, tail: Tail) -> None:
        """See whether the end was missed. While Redis is away this stays due."""
        try:
            view = self._store.existing(self._job.id)
            if view.end_sequence is not None:
                self._leaves_at = view.end_sequence
            elif view.status.terminal and self._all_seen(tail):
                self._end = (tail.next or 1) - 1
        except QueueUnavailable:
            return
        self._look_due = False

    def _all_seen(self, tail: Tail) -> bool:
        return tail.next is None or not self._store.log(self._job.generation, start=tail.next, count=1)

    def _complete(self, tail: Tail) -> bool:
        if self._end is None and self._leaves_at is not None and (tail.next is None or tail.next >= self._leaves_at):
            self._end = self._leaves_at
        return self._end is not None

    def _ended(self) -> Iterator[Step]:
        while True:
            try:
                view = self._store.existing(self._job.id)
            except QueueUnavailable:
                self._check_time()
                yield Waiting()
                time.sleep(TICK_SECONDS)
            else:
                yield Ended(view, self._end or 0)
                return

    def _check_time(self) -> None:
        if self._monotonic() > self._give_up:
            raise QueueUnavailable("nobody could say how the job ended; ask for it again later", retry_after=5)
