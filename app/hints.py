"""Publishing hints: the message that Celery would send, filled in and pushed by our own Redis client.

Celery makes each form once, for a broker in memory, so its fields are those of the installed version; per hint only the
ids, the arguments and the queue are filled in. Against `send_task` this saves half a millisecond of CPU a job and the
broker pool's own timeouts: a publish is one LPUSH with the jobs role's timeouts, and follows its failovers.
"""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Sequence
from typing import Any

import redis
import structlog
from celery import Celery
from prometheus_client import Counter

from app.queueing import DELIVER, RUN, WEBHOOKS_QUEUE, own_queue, queue, shared_queue, task_id_for
from app.redis import REDIS_AWAY

_BLANK_QUEUE = "blank"

_log = structlog.get_logger(__name__)
_unpublished = Counter(
    "posthouse_hints_unpublished", "hints that could not be published and await the reaper", ["task"]
)


class Hints:
    """Publishes hints; never raises, because the record is already written and the reaper looks after it."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._forms = {task: _Form(task) for task in (RUN, DELIVER)}

    def publish_run(self, model: str, generation: str, slot: str | int | None = None) -> bool:
        """Tell the model's workers (or one of them) that there is work. False when Redis did not take it."""
        name = shared_queue(model) if slot is None else own_queue(model, slot)
        return self._publish(RUN, [model, generation], name, task_id_for(generation))

    def publish_deliver(self) -> bool:
        """Tell the webhook workers that deliveries are due."""
        return self._publish(DELIVER, [], WEBHOOKS_QUEUE, task_id_for("deliver"))

    def _publish(self, task: str, args: list[str], name: str, task_id: str) -> bool:
        message = self._forms[task].fill(task_id, args, name)
        try:
            self._client.lpush(name, message)
        except (*REDIS_AWAY, redis.RedisError) as error:
            _unpublished.labels(task=task).inc()
            _log.warning("hint_unpublished", task=task, queue=name, error=type(error).__name__)
            return False
        return True


class _Form:
    """One task's message (Celery's protocol 2 in kombu's envelope), with blanks."""

    def __init__(self, task: str) -> None:
        app = Celery("posthouse", broker="memory://localhost/", set_as_current=False)
        task_id = secrets.token_hex(8)
        app.send_task(task, args=[], queue=queue(_BLANK_QUEUE), task_id=task_id, ignore_result=True)
        with app.connection_for_read() as connection:
            # kombu's virtual channels keep a message in the very form that they would push to Redis.
            self._message: dict[str, Any] = connection.default_channel._get(_BLANK_QUEUE)  # noqa: SLF001
        _, kwargs, embed = json.loads(base64.b64decode(self._message["body"]))
        self._rest = (kwargs, embed)

    def fill(self, task_id: str, args: Sequence[str], name: str) -> str:
        """The message as it lies in the queue's list."""
        body = json.dumps([args, *self._rest]).encode()
        ids = {"id": task_id, "root_id": task_id, "argsrepr": repr(list(args))}
        return json.dumps(
            {
                **self._message,
                "body": base64.b64encode(body).decode(),
                "headers": {**self._message["headers"], **ids},
                "properties": {
                    **self._message["properties"],
                    "correlation_id": task_id,
                    "delivery_info": {**self._message["properties"]["delivery_info"], "routing_key": name},
                    "delivery_tag": str(uuid.uuid4()),
                },
            }
        )
