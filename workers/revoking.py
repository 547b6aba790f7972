"""A revoke, from Flower or anywhere, cancels jobs.

They are those of the generation that the task runs, or, when the task has not started, those of the generation that
its hint names.

Celery's own revoke only keeps a list in each worker's memory and cannot stop a thread. This replaces the handler of
that remote-control command and still lets the original note the ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog
from celery.utils.functional import maybe_list
from celery.worker.control import Panel

from app.errors import PosthouseError
from app.jobs.job import Status
from app.jobs.store import JobStore
from app.queueing import generation_of

_PAGE = 500
_log = structlog.get_logger(__name__)


def install(store: JobStore) -> None:
    """Put our handler in front of Celery's."""
    original = Panel.data["revoke"]

    def revoke(state: Any, task_id: Any = None, terminate: bool = False, signal: Any = None, **rest: Any) -> Any:  # noqa: ARG001
        for each in maybe_list(task_id) or []:
            _cancel(store, str(each))
        return original(state, task_id, terminate=False, **rest)

    Panel.data["revoke"] = revoke


def _cancel(store: JobStore, task_id: str) -> None:
    try:
        generation = store.generation_of_task(task_id) or _not_started(store, generation_of(task_id))
        count = sum(store.cancel(job_id, message="revoked by an operator") for job_id in _jobs(store, generation))
    except PosthouseError as error:
        _log.error("revoke_failed", task=task_id, error=error.code)
        return
    _log.info("revoked", task=task_id, generation=generation, cancelled=count)


def _not_started(store: JobStore, generation: str | None) -> str | None:
    """A hint that has not run: its generation, unless another task runs that one already."""
    if generation is None:
        return None
    jobs = list(_jobs(store, generation))
    view = store.view(jobs[0]) if jobs else None
    return generation if view is not None and view.status is Status.QUEUED else None


def _jobs(store: JobStore, generation: str | None) -> Iterable[str]:
    if generation is None:
        return
    cursor = -1
    while cursor != 0:
        cursor, page = store.jobs_of_generation(generation, max(cursor, 0), _PAGE)
        yield from page
