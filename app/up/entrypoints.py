"""What each role's command becomes: the command lines of gunicorn, Celery and Flower. Pure.

`posthouse api` and its siblings replace themselves by these (`exec`), so that signals, exit status and memory are the
server's own and nothing of the workers is imported by the command line.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.settings import Settings

# Runs of the delivery task at once. Each drains many due deliveries over one loop, so a few suffice.
_WEBHOOK_THREADS = 4
# Celery warns of root because of pickled messages; ours are JSON, and in a container everybody is root.
_NO_ROOT_WARNING = "ignore:You're running the worker with superuser"


class UnknownModelError(ValueError):
    """The model is not in the configuration."""


def api() -> tuple[str, ...]:
    """Gunicorn; everything else stands in `app/api/gunicorn_conf.py`."""
    return (sys.executable, "-m", "gunicorn", "--config", "python:app.api.gunicorn_conf", "app.wsgi:application()")


def gpu_worker(settings: Settings, model: str, slot: int) -> tuple[str, ...]:
    """A Celery worker with a thread per sequence of its instance, on the instance's queue and the model's.

    Raises:
        UnknownModelError: the model is not configured.
    """
    if model not in settings.models:
        known = ", ".join(sorted(settings.models)) or "none"
        raise UnknownModelError(f"no model named {model!r} is configured (configured: {known})")
    return _celery_worker(
        settings,
        name=f"gpu-{model}-{slot}",
        queues=(f"gpu.{model}.{slot}", f"gpu.{model}"),
        threads=settings.models[model].max_concurrency,
    )


def webhook_worker(settings: Settings) -> tuple[str, ...]:
    return _celery_worker(settings, name="webhooks", queues=("webhooks",), threads=_WEBHOOK_THREADS)


def flower() -> tuple[str, ...]:
    """Flower behind our own gate: every page wants the password, `/metrics` too."""
    return (sys.executable, "-m", "workers.flower")


def _celery_worker(settings: Settings, *, name: str, queues: tuple[str, ...], threads: int) -> tuple[str, ...]:
    # Gossip and mingle are talk between workers that nobody here listens to; heartbeats stay, Flower lives on them.
    return (
        *(sys.executable, "-W", _NO_ROOT_WARNING),
        *("-m", "celery", "--quiet", "--app", "workers.main", "worker"),
        *("--pool", "threads", "--concurrency", str(threads), "--prefetch-multiplier", "1"),
        *("--queues", ",".join(queues), "--hostname", f"{name}@%h"),
        *("--task-events", "--without-gossip", "--without-mingle"),
        *("--loglevel", settings.log_level),
    )
