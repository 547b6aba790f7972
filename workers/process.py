"""What the tasks run on: the part of a worker process that Celery's threads talk to."""

from __future__ import annotations

from typing import Any, Protocol


class WorkerProcess(Protocol):
    """One worker process of either kind. A task that does not belong to its kind is a configuration fault."""

    def run_hint(self, task_id: str) -> dict[str, Any]:
        """Run what is first in line; blocks until it has ended. The report holds ids, codes and numbers."""

    def deliver(self) -> dict[str, Any]:
        """Send the webhooks that are due; blocks until none is."""

    def boot(self, worker: Any) -> None:
        """Get ready; called once, before anything is consumed. Blocks until work can be done."""

    def consuming(self, consumer: Any) -> None:
        """Celery consumes from now on; called at every (re)connection."""


class WrongQueueError(RuntimeError):
    """A message of another role's kind arrived: queues and roles are mixed up."""
