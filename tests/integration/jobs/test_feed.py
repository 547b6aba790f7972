"""The live feed on a real Redis: order, gaps, overlaps, reconnects, and one connection for everybody."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from app.jobs import events
from app.jobs.accepting import QueueCaps
from app.jobs.feed import CHANNEL, Feed
from app.jobs.store import SCRIPTS, JobStore
from app.jobs.tail import BUFFERED_MESSAGES, Item, Sign
from app.lua import Scripts
from app.redis import jobs_client, pubsub_link
from tests.support.letters import letter
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

TICK = 0.05


@dataclass
class Bench:
    """A feed, a store, and hands on the scripts of a worker."""

    server: RedisProcess
    store: JobStore
    feed: Feed
    scripts: Scripts
    held: dict[str, list] = field(default_factory=dict)

    def begin(self) -> str:
        """Submit and claim; returns the generation, whose next number is 3."""
        self.store.submit(*letter())
        held = self.scripts.call("claim", "m", "w", "m.0", 60_000, f"task-{len(self.held)}")
        self.held[held[0]] = held
        return str(held[0])

    def write(self, generation: str, first: int, *texts: str) -> None:
        fence = self.held[generation][1]
        assert self.scripts.call("append", generation, fence, first, "", *map(events.delta, texts)) == 1


@pytest.fixture
def bench(own_redis: RedisProcess) -> Iterator[Bench]:
    client = jobs_client(own_redis.url(), timeout=1)
    store = JobStore(client, caps=QueueCaps(1000, 1000), idempotency_seconds=60, submit_timeout=1)
    feed = Feed(functools.partial(pubsub_link, own_redis.url(), timeout=1), store.log)
    yield Bench(own_redis, store, feed, Scripts(own_redis.client(), SCRIPTS))
    feed.close()


def take(items: Iterator[Item], count: int) -> list[int]:
    """The next `count` sequence numbers, whatever else comes between."""
    numbers: list[int] = []
    while len(numbers) < count:
        item = next(items)
        if isinstance(item, list):
            numbers += [e.sequence for e in item]
    return numbers


def until(items: Iterator[Item], sign: Sign) -> None:
    while next(items) is not sign:
        pass


def test_what_was_logged_before_and_after_opening_comes_once_in_order(bench: Bench) -> None:
    generation = bench.begin()
    bench.write(generation, 3, "a", "b")
    with bench.feed.open(generation) as tail:
        items = tail.follow(tick=TICK)
        assert take(items, 5) == [0, 1, 2, 3, 4]
        bench.write(generation, 5, "c")
        bench.write(generation, 6, "d", "e")
        assert take(items, 3) == [5, 6, 7]


def test_a_tail_starts_where_it_is_told_to(bench: Bench) -> None:
    generation = bench.begin()
    bench.write(generation, 3, "a", "b", "c")
    with bench.feed.open(generation, start=4) as tail:
        assert take(tail.follow(tick=TICK), 2) == [4, 5]


def test_a_quiet_stream_ticks(bench: Bench) -> None:
    with bench.feed.open(bench.begin()) as tail:
        items = tail.follow(tick=TICK)
        until(items, Sign.RESYNCED)
        assert [next(items), next(items)] == [Sign.TICK, Sign.TICK]


def test_a_fresh_tail_needs_no_look_into_the_log(bench: Bench) -> None:
    job, generation = letter()
    with bench.feed.open(generation.id, fresh=True) as tail:
        wait_until(lambda: bench.feed.connected, what="the link")
        wait_until(tail._subscribed.is_set, what="the subscription")
        tail._read_log = lambda *_, **__: pytest.fail("the log was read")
        bench.store.submit(job, generation)
        first = next(tail.follow(tick=5))
        assert isinstance(first, list)
        assert [e.kind for e in first] == ["created", "queued"]


def test_a_fresh_tail_that_heard_nothing_looks_into_the_log(bench: Bench) -> None:
    job, generation = letter()
    bench.store.submit(job, generation)
    with bench.feed.open(generation.id, fresh=True) as tail:
        assert take(tail.follow(tick=5), 2) == [0, 1]


def test_a_gap_sends_the_reader_back_to_the_log(bench: Bench) -> None:
    generation = bench.begin()
    with bench.feed.open(generation) as tail:
        items = tail.follow(tick=TICK)
        assert take(items, 3) == [0, 1, 2]
        bench.server.client().xadd(f"ph:gen:{generation}:log", {"e": events.delta("silent")}, id="4-0")
        bench.server.client().hset(f"ph:gen:{generation}", "seq", 4)
        bench.write(generation, 4, "loud")
        assert take(items, 2) == [3, 4]


def test_a_doubled_message_is_cut(bench: Bench) -> None:
    generation = bench.begin()
    with bench.feed.open(generation) as tail:
        items = tail.follow(tick=TICK)
        take(items, 3)
        bench.write(generation, 3, "a")
        again = json.dumps({"n": 2, "e": [{"k": "in_progress"}, {"k": "delta", "x": "a"}]})
        bench.server.client().publish(CHANNEL + generation, again)
        bench.write(generation, 4, "b")
        assert take(items, 2) == [3, 4]


def test_a_slow_reader_costs_no_memory_and_loses_nothing(bench: Bench) -> None:
    generation = bench.begin()
    count = BUFFERED_MESSAGES * 3
    with bench.feed.open(generation) as tail:
        items = tail.follow(tick=TICK)
        take(items, 3)
        for number in range(count):
            bench.write(generation, 3 + number, str(number))
        wait_until(lambda: tail._stale, what="the buffer is full")
        assert len(tail._messages) <= BUFFERED_MESSAGES
        assert take(items, count) == list(range(3, 3 + count))


def test_streams_go_on_after_a_restart(bench: Bench) -> None:
    generation = bench.begin()
    with bench.feed.open(generation) as tail:
        items = tail.follow(tick=TICK)
        take(items, 3)
        bench.server.client().execute_command("CONFIG", "SET", "appendfsync", "always")
        bench.write(generation, 3, "a")
        assert take(items, 1) == [3]
        bench.server.kill()
        until(items, Sign.TICK)
        bench.server.start()
        until(items, Sign.RESYNCED)
        bench.write(generation, 4, "b")
        assert take(items, 1) == [4]


def test_a_frozen_connection_is_noticed_and_replaced(bench: Bench) -> None:
    generation = bench.begin()
    with bench.feed.open(generation) as tail:
        items = tail.follow(tick=TICK)
        take(items, 3)
        bench.server.freeze()
        wait_until(lambda: not bench.feed.connected, what="the feed gives the connection up", limit=15)
        bench.server.thaw()
        until(items, Sign.RESYNCED)
        bench.write(generation, 3, "a")
        assert take(items, 1) == [3]


def test_a_killed_connection_costs_no_event(bench: Bench) -> None:
    generation = bench.begin()
    client = bench.server.client()
    with bench.feed.open(generation) as tail:
        items = tail.follow(tick=TICK)
        take(items, 3)
        for round_number in range(3):
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            bench.write(generation, 3 + round_number, "x")
            assert take(items, 1) == [3 + round_number]


def test_two_hundred_streams_share_one_connection_and_leave_none_behind(bench: Bench) -> None:
    generations = [bench.begin() for _ in range(100)]
    tails = [bench.feed.open(g) for g in generations for _ in range(2)]
    readers = [tail.follow(tick=TICK) for tail in tails]
    for items in readers:
        assert take(items, 3) == [0, 1, 2]
    for generation in generations:
        bench.write(generation, 3, "x")
    for items in readers:
        assert take(items, 1) == [3]
    client = bench.server.client()
    assert len(client.client_list(_type="pubsub")) == 1
    assert bench.feed.streams == 200
    for tail in tails:
        tail.close()
    wait_until(lambda: client.pubsub_channels() == [], what="every channel is left")


def test_opening_and_closing_the_same_generation_again_and_again_misses_nothing(bench: Bench) -> None:
    generation = bench.begin()
    for number in range(50):
        with bench.feed.open(generation, start=3 + number) as tail:
            writer = threading.Thread(target=bench.write, args=(generation, 3 + number, "x"))
            writer.start()
            assert take(tail.follow(tick=5), 1) == [3 + number]
            writer.join()


def test_a_live_only_tail_reads_no_log(bench: Bench) -> None:
    generation = bench.begin()
    with bench.feed.open(generation, start=None) as tail:
        items = tail.follow(tick=TICK)
        assert next(items) in {Sign.RESYNCED, Sign.TICK}
        bench.write(generation, 3, "a")
        assert take(items, 1) == [3]


def test_redis_away_is_quiet_not_an_error(own_redis: RedisProcess) -> None:
    own_redis.kill()
    store = JobStore(
        jobs_client(own_redis.url(), timeout=0.2), caps=QueueCaps(1, 1), idempotency_seconds=1, submit_timeout=1
    )
    feed = Feed(functools.partial(pubsub_link, own_redis.url(), timeout=0.2), store.log)
    with feed.open("gen_x") as tail:
        items = tail.follow(tick=TICK)
        assert [next(items) for _ in range(3)] == [Sign.TICK] * 3
    feed.close()
