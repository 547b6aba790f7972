"""Batches of commands on one connection: replies belong to their commands, whatever happened before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis

from app.redis import BatchLink, async_jobs_client
from tests.support.redis_process import RedisProcess


def drive(server: RedisProcess, test: Callable[[BatchLink], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(BatchLink(async_jobs_client(server.url(), timeout=0.3)))

    asyncio.run(asyncio.wait_for(main(), 30))


def test_replies_come_in_order_and_an_error_stands_in_its_place(own_redis: RedisProcess) -> None:
    async def test(link: BatchLink) -> None:
        replies = await link.send([("SET", "k", "žluť"), ("INCR", "k"), ("GET", "k"), ("INCRBY", "n", 5)])
        assert replies[0] == "OK"
        assert isinstance(replies[1], redis.ResponseError)
        assert replies[2:] == ["žluť", 5]

    drive(own_redis, test)


def test_a_reply_that_is_too_late_answers_no_later_batch(own_redis: RedisProcess) -> None:
    async def test(link: BatchLink) -> None:
        await link.send([("SET", "k", "old")])
        own_redis.freeze()
        with pytest.raises(redis.TimeoutError):
            await link.send([("GET", "k")])
        own_redis.thaw()
        assert await link.send([("SET", "k", "new"), ("GET", "k")]) == ["OK", "new"]

    drive(own_redis, test)


def test_a_restarted_redis_is_reached_again(own_redis: RedisProcess) -> None:
    async def test(link: BatchLink) -> None:
        await link.send([("SET", "k", "kept")])
        own_redis.kill()
        with pytest.raises((redis.ConnectionError, OSError)):
            await link.send([("GET", "k")])
        own_redis.start()
        assert await link.send([("GET", "k")]) == ["kept"]

    drive(own_redis, test)
