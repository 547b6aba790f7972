"""What a slot or a model that is gone leaves behind is dropped, and nothing that somebody still needs."""

from __future__ import annotations

import pytest

from tests.contract.conftest import Books
from tests.support.letters import letter


@pytest.fixture
def gone(books: Books) -> Books:
    """Model `m` with traces of an instance in slot 0, and another model."""
    client = books.client
    client.sadd("ph:models", "m", "n")
    client.hset("ph:orders:m.0", "drained", "1")
    client.hset("ph:breaker:m.0", "until", "1")
    client.zadd("ph:breakers", {"m.0": 1, "n.0": 1})
    client.zadd("ph:instances:m", {"m.0": 1})
    client.rpush("ph:ring:m", "m.0")
    client.rpush("gpu.m.0", "a hint")
    for queue in ("gpu.m", "gpu.m.0"):
        client.sadd(f"_kombu.binding.{queue}", queue)
        client.sadd(f"_kombu.binding_permanent.{queue}", queue)
    client.hset("ph:stats:m", "completed", "3")
    client.hset("ph:line:m:clock", "v", "3")
    client.hset("ph:stats:n", "completed", "3")
    return books


def test_nothing_of_a_model_is_left(gone: Books) -> None:
    assert gone.scripts.call("forget", "m", 0) == 0
    assert sorted(gone.client.scan_iter("*")) == ["ph:breakers", "ph:models", "ph:stats:n"]
    assert (gone.client.smembers("ph:models"), gone.client.zrange("ph:breakers", 0, -1)) == ({"n"}, ["n.0"])


def test_an_instance_that_beats_is_not_forgotten(gone: Books) -> None:
    gone.client.hset("ph:instance:m.0", "slot", "0")
    assert gone.scripts.call("forget", "m", 0) == 0
    assert gone.client.hget("ph:orders:m.0", "drained") == "1"
    assert gone.client.sismember("ph:models", "m")


def test_a_model_that_is_waited_for_is_kept_and_the_number_told(gone: Books) -> None:
    job, generation = letter()
    gone.store.submit(job, generation)
    assert gone.scripts.call("forget", "m", 0) == 1
    assert gone.client.sismember("ph:models", "m")
    assert gone.store.existing(job.id).position == 0
