"""Kombu's channel keeps one client for its commands, also over a lost connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.transport import TRANSPORT_ALIASES

from tests.support.redis_process import RedisProcess
from workers import broker


@pytest.fixture
def server() -> Iterator[RedisProcess]:
    process = RedisProcess()
    yield process
    process.close()


@pytest.fixture
def connection(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for scheme in ("redis", "rediss", "sentinel"):
        monkeypatch.setitem(TRANSPORT_ALIASES, scheme, TRANSPORT_ALIASES[scheme])  # put back afterwards
    monkeypatch.setattr("kombu.transport._transport_cache", {})
    broker.install()
    with Connection(server.url()) as made:  # type: ignore[no-untyped-call]
        yield made


def test_messages_travel_and_are_acknowledged_by_one_client(server: RedisProcess, connection: Any) -> None:
    queue = connection.SimpleQueue("letters")
    queue.put({"number": 1})
    message = queue.get(timeout=5)
    assert server.client().hlen("unacked") == 1
    message.ack()
    assert message.payload == {"number": 1}
    assert server.client().hlen("unacked") == 0
    assert isinstance(queue.channel, broker.RedisChannel)
    assert queue.channel._create_client() is queue.channel._create_client()


def test_a_lost_connection_gets_a_client_of_the_new_pool(server: RedisProcess, connection: Any) -> None:
    channel = connection.default_channel
    before = channel._create_client()
    channel._disconnect_pools()
    after = channel._create_client()
    assert after is not before
    assert after.connection_pool is channel.pool
    assert after.ping()
