"""The queue: one Celery app factory, and the names of queues and tasks.

A message is a hint, never the truth: it names a model and the generation that caused it, and holds no prompt. A hint
that cannot be published is counted and logged; the reaper publishes it again.
"""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from kombu.entity import Exchange, Queue

from app.redis import Server, jobs_server
from app.settings import Settings

RUN = "posthouse.run"
DELIVER = "posthouse.deliver"
WEBHOOKS_QUEUE = "webhooks"
_TASK_ID_SEPARATOR = ":"


def shared_queue(model: str) -> str:
    """The queue that all workers of a model consume."""
    return f"gpu.{model}"


def own_queue(model: str, slot: int | str) -> str:
    """The queue of one instance."""
    return f"gpu.{model}.{slot}"


def task_id_for(generation: str) -> str:
    """A fresh task id that names the generation of its hint; never reused, as a revoked id is refused for good."""
    return f"{generation}{_TASK_ID_SEPARATOR}{secrets.token_hex(4)}"


def generation_of(task_id: str) -> str | None:
    """The generation that a task id names, or None for other tasks."""
    head, separator, _ = task_id.partition(_TASK_ID_SEPARATOR)
    return head if separator and head.startswith("gen_") else None


def create_celery(settings: Settings) -> Celery:
    """The Celery app of workers and Flower. Hints are published by `app.hints`."""
    jobs, timeout = settings.jobs, settings.redis.jobs_timeout
    server = jobs_server(settings.redis)
    transport: dict[str, Any] = {
        # Kombu's unacked keys are global, so this must be the same in every process.
        "visibility_timeout": jobs.visibility_timeout_seconds,
        "socket_connect_timeout": timeout,
        "socket_keepalive": True,
        "retry_on_timeout": False,
        "global_keyprefix": "",
    }
    if server.sentinels:
        transport |= {"master_name": server.service, "sentinel_kwargs": _sentinel_options(server, timeout)}
    app = Celery("posthouse", broker=broker_url(server))
    app.conf.update(
        broker_transport_options=transport,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=timeout,
        broker_pool_limit=4,
        task_acks_late=True,
        task_ignore_result=True,
        result_backend_thread_safe=True,  # there is none, but without this each greenlet that publishes makes one
        task_default_queue="posthouse",
        task_create_missing_queues=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=True,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        enable_utc=True,
    )
    return app


def broker_url(server: Server) -> str:
    """Where kombu finds the broker: Redis itself, or all of the Sentinels that know it."""
    if not server.sentinels:
        return server.url
    credentials, path = _credentials(server.url), urlsplit(server.url).path or "/0"
    return ";".join(f"sentinel://{credentials}{host}:{port}{path}" for host, port in server.sentinels)


def _credentials(url: str) -> str:
    head, separator, _ = urlsplit(url).netloc.rpartition("@")
    return head + separator


def _sentinel_options(server: Server, timeout: float) -> dict[str, Any]:
    bounds: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    return bounds | ({"password": server.sentinel_password} if server.sentinel_password else {})


def queue(name: str) -> Queue:
    """A durable direct queue, as `task_create_missing_queues` would make it."""
    return Queue(name, Exchange(name, type="direct"), routing_key=name)  # type: ignore[no-untyped-call]
