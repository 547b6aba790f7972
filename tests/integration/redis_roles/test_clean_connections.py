"""A pool hands out clean connections only: one that the server closed, or that has an unread reply, is made anew."""

from __future__ import annotations

from app.redis import PromptConnection, jobs_client
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until


def test_a_connection_that_the_server_closed_is_made_anew(own_redis: RedisProcess) -> None:
    client = jobs_client(own_redis.url(), timeout=1, max_connections=1)
    client.set("key", "value")
    before = client.client_id()
    own_redis.client().client_kill_filter(_id=str(before))
    assert client.get("key") == "value"
    assert client.client_id() != before


def test_a_connection_with_an_unread_reply_is_made_anew(own_redis: RedisProcess) -> None:
    client = jobs_client(own_redis.url(), timeout=1, max_connections=1)
    client.set("key", "value")
    connection = client.connection_pool.get_connection()
    assert isinstance(connection, PromptConnection)
    connection.send_command("ECHO", "of somebody else")  # type: ignore[no-untyped-call]
    wait_until(connection.can_read, what="the reply lies there")
    client.connection_pool.release(connection)
    assert client.get("key") == "value"


def test_a_clean_connection_is_used_again(own_redis: RedisProcess) -> None:
    client = jobs_client(own_redis.url(), timeout=1, max_connections=1)
    assert len({client.client_id() for _ in range(5)}) == 1
