"""Bare Celery with Posthouse's own settings and one task that does nothing: what a drain is measured against.

Run by the command line that a GPU worker has, with this module in the place of `workers.main`. The task notes when
it runs, which is all that it does; the worker tells the first and the last time when it ends.
"""

from __future__ import annotations

import time

import redis
from celery import signals

from app import settings as configuration
from app import telemetry
from app.queueing import RUN, create_celery
from benchmarks.support.worker import SPAN_KEY

settings = configuration.load()
app = create_celery(settings)
_times: list[float] = []  # Unix seconds; appending is atomic


@app.task(name=RUN, acks_late=True, ignore_result=True)
def noop(model: str, generation: str) -> None:  # noqa: ARG001 -- the arguments of the real task
    _times.append(time.time())


@signals.setup_logging.connect
def _log_as_everywhere(**_: object) -> None:
    telemetry.configure_logs(settings)


@signals.worker_shutdown.connect
def _tell(**_: object) -> None:
    client = redis.Redis.from_url(settings.redis.jobs_url.get_secret_value(), decode_responses=True, protocol=2)
    if _times:
        client.rpush(SPAN_KEY, len(_times), min(_times), max(_times))
