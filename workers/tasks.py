"""The tasks: each parses, calls one plain function and returns its report as one line, which is what Flower shows.

Arguments are a model name and a generation id; prompts, answers and secrets never travel here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery, Task

from app.queueing import DELIVER, RUN
from workers.process import WorkerProcess


def register(app: Celery, process: WorkerProcess) -> None:
    """Define the tasks on an app; `process` is what they run on."""

    @app.task(name=RUN, bind=True, acks_late=True, ignore_result=True)  # type: ignore[untyped-decorator]
    def run(task: Task, model: str, generation: str) -> str:  # noqa: ARG001 -- the hint; the line decides
        return _line(process.run_hint(task.request.id))

    @app.task(name=DELIVER, acks_late=True, ignore_result=True)  # type: ignore[untyped-decorator]
    def deliver() -> str:
        return _line(process.deliver())


def _line(report: Mapping[str, Any]) -> str:
    """Celery's events carry a safe `repr` of what is returned; of a dict it takes ten times as long as of a text."""
    return " ".join([f"{name}={value}" for name, value in report.items()])
