"""Hints are messages as Celery itself would send them, and a real worker takes them."""

from __future__ import annotations

import json
from typing import Any

from celery import Celery

from app.hints import Hints
from app.queueing import RUN, queue
from tests.support.redis_process import RedisProcess


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    """The message but for what differs from one to the next."""
    properties = {k: v for k, v in message["properties"].items() if k not in {"delivery_tag", "reply_to"}}
    headers = {k: v for k, v in message["headers"].items() if k != "origin"}
    return {**message, "properties": properties, "headers": headers}


def as_celery_sends(server: RedisProcess, task_id: str) -> dict[str, Any]:
    app = Celery("reference", broker=server.url(), set_as_current=False)
    app.send_task(RUN, args=["m", "gen_1"], queue=queue("gpu.m"), task_id=task_id, ignore_result=True)
    app.close()
    return json.loads(str(server.client().rpop("gpu.m")))


def test_a_hint_is_the_message_that_celery_would_send(own_redis: RedisProcess) -> None:
    client = own_redis.client()
    assert Hints(client).publish_run("m", "gen_1")
    ours = json.loads(str(client.rpop("gpu.m")))
    theirs = as_celery_sends(own_redis, ours["headers"]["id"])
    assert without_ids(ours) == without_ids(theirs)


def test_each_hint_has_ids_of_its_own(own_redis: RedisProcess) -> None:
    client = own_redis.client()
    hints = Hints(client)
    for _ in range(2):
        hints.publish_run("m", "gen_1", 3)
    first, second = (json.loads(text) for text in client.lrange("gpu.m.3", 0, -1))
    assert first["headers"]["id"] != second["headers"]["id"]
    assert first["properties"]["delivery_tag"] != second["properties"]["delivery_tag"]
    assert first["properties"]["delivery_info"] == {"exchange": "", "routing_key": "gpu.m.3"}


def test_an_absent_redis_is_said_and_never_raised(own_redis: RedisProcess) -> None:
    client = own_redis.client()
    own_redis.kill()
    assert Hints(client).publish_run("m", "gen_1") is False
