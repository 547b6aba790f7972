"""Results: look at a job, read its text, wait for its end, follow its events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from app.errors import JobNotFound
from app.jobs.feed import Feed
from app.jobs.job import JobView, Kind, Status, is_job_id
from app.jobs.output import NOTHING, Output, from_events, from_result
from app.jobs.store import JobStore
from app.jobs.tail import Tail
from app.jobs.voids import Owed
from app.services.following import Ended, Following, Step
from app.services.keys import ApiKey


class Results:
    """The use case.

    Args:
        voids: settled before anything is read, so that nobody sees a job whose submit was answered with an error.
        monotonic: seconds.
    """

    def __init__(
        self, store: JobStore, feed: Feed, voids: Owed, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._feed = feed
        self._voids = voids
        self._monotonic = monotonic

    def view(self, job_id: str, key: ApiKey, kind: Kind | None = None) -> JobView:
        """The job as it is now.

        Raises:
            JobNotFound: no such job is kept, it is another tenant's, or it came from another endpoint.
            QueueUnavailable: Redis is away, so nothing can be said.
        """
        if not is_job_id(job_id):
            raise _unknown(job_id)
        self._voids.settle()
        view = self._store.view(job_id)
        if view is None or not key.sees(view) or (kind is not None and view.kind is not kind):
            raise _unknown(job_id)
        return view

    def output(self, view: JobView) -> Output:
        """An answer: all of it, or what a job that failed or left early had got by then."""
        if view.result is not None:
            return from_result(view.result)
        if not view.status.terminal or view.status is Status.COMPLETED:
            return NOTHING
        return from_events(self._store.whole_log(view.generation, end=view.end_sequence))

    def place(self, job_id: str) -> tuple[int, float | None] | None:
        """The job's rank in its model's line now and the wait expected from there; None when it does not wait there."""
        view = self._store.view(job_id)
        return None if view is None or view.position is None else (view.position, view.eta_seconds)

    def last_sequence(self, view: JobView) -> int:
        """The sequence number of the terminal event of a job that has ended."""
        return self._store.next_sequence(view.generation) - 1 if view.end_sequence is None else view.end_sequence

    def open(self, view: JobView, *, start: int | None) -> Tail:
        """A tail of the job's events; see `Feed.open`."""
        return self._feed.open(view.generation, start=start)

    def follow(self, view: JobView, tail: Tail) -> Iterator[Step]:
        """The job's events from where the tail starts, then its end; see `Following`."""
        return Following(self._store, view, self._monotonic).steps(tail)

    def wait(self, view: JobView, tail: Tail, *, still_there: Callable[[], None], seconds: float | None) -> JobView:
        """The job once it has ended, or as it is after `seconds` (None: however long it takes).

        `still_there` is called while waiting; whatever it raises ends the wait.
        """
        until = None if seconds is None else self._monotonic() + seconds
        for step in self.follow(view, tail):
            if isinstance(step, Ended):
                return step.view
            still_there()
            if until is not None and self._monotonic() >= until:
                break
        return self._store.existing(view.id)


def _unknown(job_id: str) -> JobNotFound:
    return JobNotFound(f"no job {job_id[:80]!r} is kept here; it may have aged out")
