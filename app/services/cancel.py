"""Cancel: by the owner's wish, or because the caller who waited is gone."""

from __future__ import annotations

from typing import Protocol

import structlog

from app.errors import Unavailable
from app.jobs.job import JobView, Kind
from app.jobs.store import JobStore
from app.jobs.voids import Owed
from app.services.keys import ApiKey
from app.services.results import Results

HUNG_UP = "client_disconnected"
HUNG_UP_MESSAGE = "the caller hung up before the end"

_log = structlog.get_logger(__name__)


class DeliveryHints(Protocol):
    """Tells the webhook workers that something is due; never raises."""

    def publish_deliver(self) -> object: ...


class Cancel:
    """The use case.

    Args:
        owed: hang-ups that Redis has not heard of yet.
    """

    def __init__(self, store: JobStore, results: Results, hints: DeliveryHints, owed: Owed) -> None:
        self._store = store
        self._results = results
        self._hints = hints
        self._owed = owed

    def cancel(self, job_id: str, key: ApiKey, kind: Kind | None = None) -> JobView:
        """End a job as cancelled; one that has ended already is given back as it is. Raises like `Results.view`."""
        view = self._results.view(job_id, key, kind)
        if view.status.terminal:
            return view
        if self._store.cancel(job_id) and view.webhook is not None:
            self._hints.publish_deliver()
        return self._results.view(job_id, key, kind)

    def hang_up(self, job: JobView) -> None:
        """The caller who waited for this job is gone: nobody wants the answer, unless it can be asked for again.

        Background jobs and those with an Idempotency-Key run on.
        """
        if job.background or job.keyed:
            return
        _log.info("caller_hung_up", job=job.id)
        try:
            self._store.cancel(job.id, code=HUNG_UP, message=HUNG_UP_MESSAGE)
        except Unavailable:
            self._owed.add(job.id)


def owed_hang_ups(store: JobStore) -> Owed:
    """The list of hang-ups that are still to be told."""
    return Owed("hang_up", lambda job_id: store.cancel(job_id, code=HUNG_UP, message=HUNG_UP_MESSAGE))
