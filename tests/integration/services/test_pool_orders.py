"""What operators may order of an instance, by what is known of it."""

from __future__ import annotations

import pytest
import redis

from app.errors import NotFound
from app.services.pool import Pool


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url, decode_responses=True, protocol=2)


def test_a_drained_instance_that_died_can_be_resumed_before_it_is_back(client: redis.Redis) -> None:
    pool = Pool(client, ["m"])
    client.hset("ph:instance:m.0", "slot", "0")
    pool.order("m.0", "drain")
    client.delete("ph:instance:m.0")
    pool.order("m.0", "resume")
    assert not client.exists("ph:orders:m.0")


@pytest.mark.parametrize("wish", ["drain", "resume", "restart"])
def test_nothing_is_ordered_of_an_instance_that_nobody_knows(client: redis.Redis, wish: str) -> None:
    with pytest.raises(NotFound):
        Pool(client, ["m"]).order("m.7", wish)  # type: ignore[arg-type]
    assert client.dbsize() == 0
