"""The tasks: each parses, calls one plain function and returns its report, which is what Flower shows.

Arguments are a model name and a generation id; prompts, answers and secrets never travel here.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, Task

from app.queueing import DELIVER, RUN
from workers.process import WorkerProcess


def register(app: Celery, process: WorkerProcess) -> None:
    """Define the tasks on an app; `process` is what they run on."""

    @app.task(name=RUN, bind=True, acks_late=True, ignore_result=True)  # type: ignore[untyped-decorator]
    def run(task: Task, model: str, generation: str) -> dict[str, Any]:  # noqa: ARG001 -- the hint; the line decides
        return process.run_hint(task.request.id)

    @app.task(name=DELIVER, acks_late=True, ignore_result=True)  # type: ignore[untyped-decorator]
    def deliver() -> dict[str, Any]:
        return process.deliver()
