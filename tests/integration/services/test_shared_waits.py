"""Many who wait for one answer, on a real Redis: one subscription a process, and the log is read by nobody."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
import redis

from app.jobs import events
from app.jobs.accepting import QueueCaps
from app.jobs.feed import CHANNEL, Feed
from app.jobs.job import JobView, Kind, Status
from app.jobs.store import SCRIPTS, JobStore
from app.jobs.voids import Owed
from app.lua import Scripts
from app.redis import jobs_client, pubsub_link
from app.sections import JobSettings, ModelSettings
from app.services.cached_answers import Answers
from app.services.keys import DEV_KEY
from app.services.models import Models
from app.services.orders import Order
from app.services.results import Results
from app.services.submit import Submit
from cache.memory_store import MemoryEntryStore
from tests.support import caches
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

ORDER = Order(Kind.CHAT, DEV_KEY, "m", [{"role": "user", "content": "x"}], {"temperature": 0}, 5, "max_tokens")
CALLERS = 12
RESULT = '{"text": "hello", "finish_reason": "stop"}'


class Hints:
    def publish_run(self, model: str, generation: str, slot: str | None) -> None:
        """Nobody runs here but the test."""


class Process:
    """What one API process has: a store, a feed, the use cases."""

    def __init__(self, server: RedisProcess) -> None:
        store = JobStore(
            jobs_client(server.url(), timeout=1), caps=QueueCaps(100, 100), idempotency_seconds=60, submit_timeout=1
        )
        self.feed = Feed(functools.partial(pubsub_link, server.url(), timeout=1), store.log)
        voids = Owed("void", store.void)
        self.submit = Submit(
            store=store,
            models=Models({"m": ModelSettings(engine="paced")}, store.stats, now=0),
            feed=self.feed,
            hints=Hints(),
            voids=voids,
            check_url=lambda _: None,
            answers=Answers(caches.desk(MemoryEntryStore(monotonic=time.monotonic), time.time).cache, lambda _: False),
            limits=JobSettings(),
        )
        self.results = Results(store, self.feed, voids)

    def ask(self, order: Order = ORDER) -> JobView:
        """As a waiting caller does it."""
        submitted, tail = self.submit.submit_followed(order)
        if tail is None:
            return submitted.view
        with tail:
            return self.results.wait(submitted.view, tail, still_there=lambda: None, seconds=20)


@dataclass
class House:
    redis: redis.Redis
    scripts: Scripts
    processes: tuple[Process, Process]

    def run(self) -> str:
        """Claim the only generation, write its answer, end it."""
        held = self.scripts.call("claim", "m", "w", "m.0", 60_000, "task")
        assert self.scripts.call("append", held[0], held[1], held[3], "", events.delta("hello")) == 1
        end = int(held[3]) + 1
        log = events.end("completed")
        assert self.scripts.call("commit", held[0], held[1], end, "completed", RESULT, "", "", 5, 1, 1, log) == 1
        return str(held[0])

    def listeners(self, generation: str) -> int:
        return int(self.redis.pubsub_numsub(CHANNEL + generation)[0][1])

    def calls(self, command: str) -> int:
        return int(self.redis.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


@pytest.fixture
def house(own_redis: RedisProcess) -> Iterator[House]:
    client = own_redis.client()
    made = House(client, Scripts(client, SCRIPTS), (Process(own_redis), Process(own_redis)))
    yield made
    for process in made.processes:
        process.feed.close()


@pytest.fixture
def asking() -> Iterator[Callable[[Process], Future[JobView]]]:
    with ThreadPoolExecutor(CALLERS + 1) as pool:
        yield lambda process: pool.submit(process.ask)


def joined(house: House) -> Callable[[], bool]:
    return lambda: len(list(house.redis.scan_iter("ph:job:*"))) == CALLERS


def test_all_who_ask_the_same_get_the_answer_over_one_subscription_a_process(
    house: House, asking: Callable[[Process], Future[JobView]]
) -> None:
    first = asking(house.processes[0])
    wait_until(lambda: house.redis.zcard("ph:line:m") == 1, what="the first one waits in line")
    others = [asking(house.processes[number % 2]) for number in range(1, CALLERS)]
    wait_until(joined(house), what="all have joined")
    generation = str(house.redis.zrange("ph:line:m", 0, 0)[0]).partition(":")[2]
    wait_until(lambda: house.listeners(generation) == 2, what="each process listens")
    house.redis.config_resetstat()
    assert house.run() == generation
    views = [caller.result(30) for caller in (first, *others)]
    assert {view.status for view in views} == {Status.COMPLETED}
    assert {(view.result or {})["text"] for view in views} == {"hello"}
    assert len({view.id for view in views}) == CALLERS
    assert house.calls("xrange") == 0
    wait_until(lambda: house.listeners(generation) == 0, what="nobody listens any more")


def test_a_process_that_follows_a_question_subscribes_no_more_for_it(
    house: House, asking: Callable[[Process], Future[JobView]]
) -> None:
    first = asking(house.processes[0])
    wait_until(lambda: house.redis.zcard("ph:line:m") == 1, what="the first one waits in line")
    house.redis.config_resetstat()
    others = [asking(house.processes[0]) for _ in range(1, CALLERS)]
    wait_until(joined(house), what="all have joined")
    assert (house.calls("subscribe"), house.calls("unsubscribe")) == (0, 0)
    house.run()
    assert all(caller.result(30).status is Status.COMPLETED for caller in (first, *others))


def test_what_has_ended_already_is_answered_without_waiting(house: House) -> None:
    """A generation that has just ended may still be joined; whoever does gets the answer at once."""
    house.processes[0].submit.submit(ORDER)
    house.run()
    submitted, tail = house.processes[1].submit.submit_followed(ORDER)
    assert (submitted.cache, submitted.view.status, tail) == ("joined", Status.COMPLETED, None)
    assert house.processes[1].feed.streams == 0


def test_a_question_whose_leader_is_gone_begins_anew(house: House) -> None:
    process = house.processes[0]
    submitted, tail = process.submit.submit_followed(ORDER)
    assert tail is not None
    process.results._store.cancel(submitted.view.id)
    again, other = process.submit.submit_followed(ORDER)  # the first one's tail is still open
    assert other is not None
    assert again.view.generation != submitted.view.generation
    assert other.generation == again.view.generation
    tail.close()
    with other:
        house.run()
        view = process.results.wait(again.view, other, still_there=lambda: None, seconds=20)
    assert view.status is Status.COMPLETED


def test_those_who_share_nothing_have_subscriptions_of_their_own(house: House) -> None:
    process, sampled = house.processes[0], replace(ORDER, params={})
    tails = [process.submit.submit_followed(sampled)[1] for _ in range(3)]
    assert len({tail.generation for tail in tails if tail is not None}) == 3
