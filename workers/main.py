"""The Celery app of every worker: `celery --app workers.main worker …`, started by `posthouse worker|webhooks`.

Importing this reads the settings and defines the tasks; nothing connects and no instance starts until the worker
boots.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps, signals

from app import settings as configuration
from app import telemetry
from app.hints import Hints
from app.queueing import create_celery
from workers import broker, tasks, wiring
from workers.batched_events import BatchedEvents
from workers.gpu_process import GpuProcess
from workers.process import WorkerProcess
from workers.webhook_process import WebhookProcess

settings = configuration.load()
broker.install()
app = create_celery(settings)
_hints = Hints(wiring.commands(settings))
process: WorkerProcess = GpuProcess(settings, _hints) if settings.worker.model else WebhookProcess(settings, _hints)
tasks.register(app, process)


class Boot(bootsteps.StartStopStep):  # type: ignore[misc]
    """Makes the process ready before Celery's consumer starts (which is the last step by itself)."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        process.boot(parent)


app.steps["worker"].add(Boot)
app.steps["consumer"].add(BatchedEvents)


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _log_as_everywhere(**_: Any) -> None:
    telemetry.configure_logs(settings)


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _consuming(sender: Any, **_: Any) -> None:
    process.consuming(sender)
