"""Every kind of connection follows a failover of real Sentinels: commands, scripts, pub/sub, batches, the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis

from app import settings as configuration
from app.hints import Hints
from app.redis import REDIS_AWAY, BatchLink, Server, async_jobs_client, jobs_client, jobs_server, pubsub_link
from tests.support.sentinels import Fleet
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    found = Fleet()
    yield found
    found.close()


def server_of(fleet: Fleet) -> Server:
    return jobs_server(configuration.load(redis=fleet.settings).redis)


def test_all_connections_lead_to_the_new_master_after_a_failover(fleet: Fleet) -> None:
    server = server_of(fleet)
    client = jobs_client(server, timeout=1)
    hints = Hints(client)
    loop = asyncio.new_event_loop()
    waiting = async_jobs_client(server, timeout=1)
    batches = BatchLink(waiting)
    assert client.set("before", "1")
    assert hints.publish_run("m", "gen_1")
    assert loop.run_until_complete(waiting.get("before")) == "1"
    assert loop.run_until_complete(batches.send([("GET", "before")])) == ["1"]
    client.execute_command("WAIT", 1, 5000)
    dead = fleet.kill_master()
    with pytest.raises(REDIS_AWAY):
        client.get("before")
    new = fleet.failed_over_from(dead)

    assert answered(lambda: client.set("after", "2"))
    assert new.client().get("after") == "2"
    assert answered(lambda: hints.publish_run("m", "gen_2"))
    assert new.client().llen("gpu.m") == 2
    assert answered(lambda: loop.run_until_complete(waiting.get("after"))) == "2"
    assert answered(lambda: loop.run_until_complete(batches.send([("GET", "after")]))) == ["2"]
    link = pubsub_link(server, timeout=1)
    link.send("SUBSCRIBE", "live")
    wait_until(lambda: link.read(1), what="the subscription")
    new.client().publish("live", "hello")
    assert wait_until(lambda: link.read(1), what="the message")[2] == "hello"
    link.close()
    loop.run_until_complete(waiting.aclose())
    loop.close()


def answered(call):
    """What a call gives once Redis answers it."""

    def attempt():
        try:
            return call()
        except REDIS_AWAY:
            return None

    return wait_until(attempt, what="an answer", limit=30, every=0.1)


def test_a_master_that_was_demoted_under_a_connection_is_left(fleet: Fleet) -> None:
    client = jobs_client(server_of(fleet), timeout=1)
    assert answered(lambda: client.set("key", "1"))
    master = fleet.master()
    link = jobs_client(master.url(), timeout=1)
    client.ping()
    link.replicaof("127.0.0.1", str(master.port))  # of itself: a replica that nobody wants
    try:
        with pytest.raises(redis.ConnectionError):
            client.set("key", "2")
    finally:
        link.replicaof("NO", "ONE")
    assert answered(lambda: client.set("key", "3"))


def test_without_any_sentinel_the_error_says_that_redis_is_away() -> None:
    nobody = Server("redis://nowhere.invalid/0", (("127.0.0.1", 1),), "jobs")
    with pytest.raises(REDIS_AWAY):
        jobs_client(nobody, timeout=0.2).ping()
