"""Expected waits, what is refused for them, and the bounds of the line's fairness: on every Redis that we support."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import QueueFull
from app.jobs import events
from app.jobs.accepting import QueueCaps
from app.jobs.store import JobStore
from tests.contract.conftest import Books
from tests.support.letters import letter

_tasks = itertools.count()


def claim(books: Books, *, instance: str = "m.0") -> list[Any]:
    return list(books.scripts.call("claim", "m", "w", instance, 10_000, f"waiting-{next(_tasks)}"))


def commit(books: Books, held: list[Any], status: str = "completed") -> None:
    log = events.end(status, finish="stop")
    result = json.dumps({"text": "hi", "finish_reason": "stop", "usage": {}, "tool_calls": []})
    assert books.scripts.call("commit", held[0], held[1], held[3], status, result, "", "", 5, 7, 1, log) == 1


def stable(books: Books, *, capacity: int = 2, in_flight: int = 2, slot: int = 0) -> None:
    """One instance in the ring."""
    books.client.hset(f"ph:instance:m.{slot}", mapping={"capacity": capacity, "in_flight": in_flight, "slot": slot})
    books.client.rpush("ph:ring:m", f"m.{slot}")


def measured(books: Books, *, seconds: float = 1) -> None:
    """Ten runs, each of cost 10, were measured."""
    facts = {"work": 100, "busy": 10 * seconds, "runs": 10, "at": books.client.time()[0] * 1000}
    books.client.hset("ph:rate:m", mapping=facts)


def test_a_wait_is_what_is_ahead_over_what_the_places_do(books: Books) -> None:
    stable(books)
    measured(books)
    accepted = [books.store.submit(*letter()) for _ in range(3)]
    assert [a.wait for a in accepted] == [0.5, 1.0, 1.5]
    looked = [books.store.existing(a.job_id) for a in accepted]
    assert [view.eta_seconds for view in looked] == [0.5, 1.0, 1.5]
    claim(books)
    assert books.store.existing(accepted[2].job_id).eta_seconds == 1.0


def test_free_places_and_more_instances_shorten_the_wait(books: Books) -> None:
    stable(books, capacity=4, in_flight=2)
    measured(books)
    assert [books.store.submit(*letter()).wait for _ in range(4)] == [0, 0, 0.25, 0.5]
    books.client.hset("ph:instance:m.1", mapping={"capacity": 4, "in_flight": 4, "slot": 1})
    books.client.rpush("ph:ring:m", "m.1")
    assert books.store.submit(*letter()).wait == 0.375


def test_all_places_of_a_large_pool_are_reckoned_with_although_not_all_are_looked_at(books: Books) -> None:
    for slot in range(100):
        stable(books, capacity=4 if slot % 2 else 6, in_flight=6, slot=slot)
    measured(books, seconds=10)
    accepted = [books.store.submit(*letter()) for _ in range(10)]
    assert accepted[-1].wait == pytest.approx(10 * 10 / 500, rel=0.1)


def test_costly_work_ahead_weighs_more(books: Books) -> None:
    stable(books)
    measured(books)
    books.store.submit(*letter(cost=100))
    assert books.store.submit(*letter(cost=10)).wait == 0.5 + 5


@pytest.mark.parametrize("lacking", ["instance", "measurement"])
def test_nobody_knows_the_wait_without_an_instance_or_a_measurement(books: Books, lacking: str) -> None:
    if lacking == "measurement":
        stable(books)
    else:
        measured(books)
    accepted = books.store.submit(*letter(deadline_seconds=0.1))
    assert accepted.wait is None
    assert books.store.existing(accepted.job_id).eta_seconds is None


def test_an_open_breaker_takes_its_places_out_of_the_reckoning(books: Books) -> None:
    stable(books)
    measured(books)
    books.client.hset("ph:breaker:m.0", "until", (books.client.time()[0] + 60) * 1000)
    assert books.store.submit(*letter()).wait is None


def test_runs_are_measured_by_their_commits(books: Books) -> None:
    stable(books, in_flight=0)
    for status in ("completed", "incomplete", "failed"):
        books.store.submit(*letter(cost=10))
        commit(books, claim(books), status)
    rate = books.client.hgetall("ph:rate:m")
    assert float(rate["runs"]) == pytest.approx(2, rel=0.2)
    assert float(rate["work"]) == pytest.approx(20, rel=0.2)
    assert float(rate["busy"]) > 0
    assert books.client.pttl("ph:rate:m") > 0


def test_a_job_that_would_miss_its_deadline_is_refused_with_the_time_to_come_back(books: Books) -> None:
    stable(books)
    measured(books)
    for _ in range(6):
        books.store.submit(*letter(deadline_seconds=5))
    with pytest.raises(QueueFull) as caught:  # it would wait 3.5 s and run 1 s; times 1.2 that is more than 5
        books.store.submit(*letter(deadline_seconds=5))
    assert caught.value.retry_after == pytest.approx(3.5 + 1 - 5 / 1.2, abs=0.002)
    assert "3.5 s" in caught.value.message
    for _ in range(2):  # half a second passes: two places fell free
        claim(books)
    assert books.store.submit(*letter(deadline_seconds=5)).position == 4


def test_a_job_that_nobody_is_ahead_of_is_taken_whatever_its_deadline(books: Books) -> None:
    stable(books, in_flight=0)
    measured(books, seconds=100)
    assert books.store.submit(*letter(deadline_seconds=1)).wait == 0


def test_a_refused_submit_leaves_nothing(books: Books) -> None:
    stable(books)
    measured(books)
    for _ in range(2):
        books.store.submit(*letter(tenant="a", deadline_seconds=60))
    before = snapshot(books)
    with pytest.raises(QueueFull):
        books.store.submit(*letter(tenant="b", deadline_seconds=1.5))
    assert snapshot(books) == before


def snapshot(books: Books) -> dict[str, Any]:
    found = {key: books.client.type(key) for key in books.client.keys("*")}
    line = books.client.zrange("ph:line:m", 0, -1, withscores=True)
    return {**found, "line": line, "clock": books.client.hgetall("ph:line:m:clock")}


def test_retry_after_of_a_cap_is_when_there_is_room(books: Books) -> None:
    stable(books)
    measured(books)
    for _ in range(10):
        books.store.submit(*letter(tenant="a"))
    with pytest.raises(QueueFull) as own:
        books.store.submit(*letter(tenant="a"))
    assert own.value.retry_after == 0.5
    for _ in range(10):
        books.store.submit(*letter(tenant="b"))
    with pytest.raises(QueueFull) as again:
        books.store.submit(*letter(tenant="a"))
    assert again.value.retry_after == 0.5  # the model's cap is looked at first
    claim(books)
    claim(books)
    assert books.store.submit(*letter(tenant="a")).position >= 0


def test_what_waits_is_counted_by_tier_tenant_and_age(books: Books) -> None:
    stable(books)
    for tenant, tier in (("a", "priority"), ("a", "flex"), ("b", "default")):
        books.store.submit(*letter(tenant=tenant, tier=tier))
    waiting, age, places, free, wait, tiers, tenants = books.scripts.call("look", "m")
    assert (waiting, places, free, wait) == (3, 2, 0, -1)
    assert age >= 0
    assert pairs(tiers) == {"0": "1", "1": "1", "2": "1"}
    assert pairs(tenants) == {"a": "2", "b": "1"}
    held = [claim(books) for _ in range(3)]
    assert books.scripts.call("look", "m")[0:2] == [0, 0]
    books.scripts.call("release", held[0][0], held[0][1], 0, 3, "worker_lost", "drained", "")
    assert books.scripts.call("look", "m")[0] == 1
    assert books.client.hget("ph:line:m:clock", "cost") is not None
    claim(books)
    assert books.client.hget("ph:line:m:clock", "cost") is None
    assert not books.client.exists("ph:line:m:since", "ph:line:m:tiers", "ph:line:m:tenants")


def pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@pytest.fixture
def wide(books: Books) -> JobStore:
    return JobStore(books.client, caps=QueueCaps(1000, 1000), idempotency_seconds=60, submit_timeout=10)


def start_order(books: Books, count: int, *, between: Callable[[], object]) -> list[str]:
    """Whose work is started, while something happens before each start."""
    order = []
    for _ in range(count):
        between()
        gen_id = claim(books)[0]
        order.append(str(books.client.hget(f"ph:gen:{gen_id}", "tenant")))
    return order


def test_a_steady_stream_of_priority_leaves_flex_its_ninth(books: Books, wide: JobStore) -> None:
    for _ in range(12):
        wide.submit(*letter(tenant="slow", tier="flex"))
    wide.submit(*letter(tenant="vip", tier="priority"))

    def more() -> None:
        wide.submit(*letter(tenant="vip", tier="priority"))

    order = start_order(books, 91, between=more)
    starts = [at for at, tenant in enumerate(order) if tenant == "slow"]
    assert len(starts) >= 10
    assert max(later - earlier for earlier, later in itertools.pairwise(starts)) <= 9


def test_a_burst_costs_a_steady_tenant_one_job_each_time(books: Books, wide: JobStore) -> None:
    for _ in range(100):
        wide.submit(*letter(tenant="burst"))
    claim(books)
    waits = []
    for _ in range(10):
        mine = wide.submit(*letter(tenant="quiet"))
        assert mine.position <= 1
        order = start_order(books, 2, between=lambda: None)
        waits.append(order.index("quiet"))
    assert max(waits) <= 1


def test_a_burst_takes_no_more_than_its_share_from_another_backlog(books: Books, wide: JobStore) -> None:
    for _ in range(20):
        wide.submit(*letter(tenant="first"))
    for _ in range(100):
        wide.submit(*letter(tenant="burst"))
    order = start_order(books, 40, between=lambda: None)
    for end in range(1, 41):
        assert abs(order[:end].count("first") - order[:end].count("burst")) <= 1


def test_a_priority_job_that_arrives_among_lesser_work_starts_next(books: Books, wide: JobStore) -> None:
    wide.submit(*letter())
    claim(books)
    for tier in ["flex"] * 10 + ["default"] * 5:
        wide.submit(*letter(tier=tier))
    urgent = wide.submit(*letter(tier="priority"))
    assert urgent.position == 0
    assert claim(books)[0] == urgent.generation


def test_a_held_job_stands_in_line_only_once_it_is_admitted(books: Books) -> None:
    job, generation = letter()
    facts = {**books.store._facts(job, generation), "held": 1}
    fields = ["id", job.id, "tenant", "t", "status", "", "webhook_url", "", "idem", ""]
    theirs = ["id", generation.id, "tenant", "t", "model", "m", "request", "{}", "continuable", 1, "cache", ""]
    assert books.scripts.call("submit", 0, json.dumps(facts), len(fields), *fields, *theirs)[0] == "held"
    assert claim(books) == []
    assert books.scripts.call("admit", job.id, "round_robin")[0:1] == ["ok"]
    again = books.scripts.call("admit", job.id, "round_robin")
    assert (again[0], again[3]) == ("ok", 0)
    assert claim(books)[0] == generation.id
    assert books.scripts.call("admit", "resp_gone", "round_robin")[0] == "gone"


def test_fencing_tokens_follow_the_clock(books: Books) -> None:
    """A master that lost a claim must not give its token to somebody else."""
    books.store.submit(*letter())
    held = claim(books)
    seconds = books.client.time()[0]
    assert abs(int(held[1]) / 1000 - seconds) < 60
