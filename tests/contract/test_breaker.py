"""The breaker inside the scripts, and the same rules as a pure function: one history, one outcome."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from app.jobs import events
from app.jobs.generation import Dispatch
from model_pool.breaker import Breaker, BreakerPolicy, BreakerState, Outcome, admits, after
from tests.contract.conftest import Books
from tests.support.letters import letter

POLICY = BreakerPolicy(window=30_000, minimum=3, error_rate=0.5, cool_down=60_000, longest_cool_down=600_000, probes=1)
_tasks = itertools.count()


def beat(books: Books, slot: int = 0, *, model: str = "m", capacity: int = 4, pid: int = 7) -> None:
    """What a worker's heartbeat leaves, without its clock."""
    name = f"{model}.{slot}"
    facts = {"slot": slot, "capacity": capacity, "in_flight": 0, "pid": pid}
    books.client.hset(f"ph:instance:{name}", mapping=facts)
    if books.client.lpos(f"ph:ring:{model}", name) is None:
        books.client.rpush(f"ph:ring:{model}", name)


def claim(
    books: Books, slot: int = 0, *, model: str = "m", policy: BreakerPolicy = POLICY, lease: int = 10_000
) -> list:
    task = f"task-{next(_tasks)}"
    return books.scripts.call("claim", model, "w", f"{model}.{slot}", lease, task, policy.encode())


def run(books: Books, slot: int = 0, *, model: str = "m", policy: BreakerPolicy = POLICY) -> list:
    books.store.submit(*letter(model=model))
    held = claim(books, slot, model=model, policy=policy)
    assert len(held) > 1, "the instance was not let through"
    return held


def fail(books: Books, held: list, slot: int = 0, *, model: str = "m", attempts: int = 1) -> list:
    return books.scripts.call("release", held[0], held[1], 1, attempts, "engine_error", "it failed", f"{model}.{slot}")


def finish(books: Books, held: list, *, status: str = "completed", code: str = "") -> None:
    result = json.dumps({"text": "", "finish_reason": "stop", "usage": {}, "tool_calls": []})
    done = books.scripts.call(
        "commit", held[0], held[1], held[3], status, "" if code else result, code, "", 1, 1, 0, events.end(status)
    )
    assert done


def trip(books: Books, slot: int = 0, *, model: str = "m", policy: BreakerPolicy = POLICY) -> None:
    for _ in range(policy.minimum):
        fail(books, run(books, slot, model=model, policy=policy), slot, model=model)


def cool_off(books: Books, slot: int = 0, *, model: str = "m") -> None:
    books.client.hset(f"ph:breaker:{model}.{slot}", "until", 1)


def state(books: Books, slot: int = 0, *, model: str = "m") -> BreakerState:
    until = books.client.hget(f"ph:breaker:{model}.{slot}", "until")
    seconds, _ = books.client.time()
    return Breaker(until=None if until is None else int(until)).state(seconds * 1000)


def test_faults_take_an_instance_out_of_the_ring_and_no_hint_or_claim_gets_there(books: Books) -> None:
    beat(books, 0)
    beat(books, 1)
    trip(books)
    assert state(books) is BreakerState.OPEN
    assert books.client.lrange("ph:ring:m", 0, -1) == ["m.1"]
    slots = []
    for _ in range(4):
        slots.append(books.store.submit(*letter()).slot)
        finish(books, claim(books, 1))
    assert slots == ["1"] * 4
    books.store.submit(*letter())
    assert claim(books, 0) == ["1"], "the hint belongs to the other instance"
    assert books.client.pttl("ph:breaker:m.0") > POLICY.cool_down


def test_while_everybody_is_out_work_waits_in_line(books: Books) -> None:
    beat(books)
    trip(books)
    job, _ = letter()
    assert books.store.submit(job, _).slot is None
    assert claim(books) == []
    assert books.store.existing(job.id).position == 0


@pytest.mark.parametrize(
    ("status", "code"), [("failed", "invalid_prompt"), ("failed", "context_length_exceeded")], ids=["4xx", "too long"]
)
def test_a_clients_mistakes_count_neither_way(books: Books, status: str, code: str) -> None:
    beat(books)
    for _ in range(10):
        finish(books, run(books), status=status, code=code)
    assert not books.client.exists("ph:breaker:m.0")
    trip(books)
    assert state(books) is BreakerState.OPEN, "the mistakes were not taken for successes either"


def test_cancels_deadlines_and_drains_count_neither_way(books: Books) -> None:
    beat(books)
    job, generation = letter()
    books.store.submit(job, generation)
    assert claim(books)[0] == generation.id
    books.store.cancel(job.id)
    held = run(books)
    books.scripts.call("release", held[0], held[1], 0, 3, "worker_lost", "drained", "")
    assert not books.client.exists("ph:breaker:m.0")


@pytest.mark.parametrize("code", ["timeout", "engine_out_of_memory"])
def test_runs_that_take_too_long_or_too_much_memory_are_faults(books: Books, code: str) -> None:
    beat(books)
    for _ in range(POLICY.minimum):
        finish(books, run(books), status="failed", code=code)
    assert state(books) is BreakerState.OPEN


def test_a_worker_that_dies_with_its_runs_is_a_fault_unless_its_process_has_been_replaced(books: Books) -> None:
    for pid, expected in ((8, BreakerState.CLOSED), (7, BreakerState.OPEN)):
        beat(books, pid=7)
        for _ in range(POLICY.minimum):
            books.store.submit(*letter())
            assert len(claim(books, lease=0)) > 1
        beat(books, pid=pid)
        books.scripts.call("reap", 0, 10_000, 1, 5000, 100)
        assert state(books) is expected


def test_half_open_lets_as_many_probes_through_as_there_are_places(books: Books) -> None:
    policy = BreakerPolicy(30_000, 3, 0.5, 60_000, 600_000, probes=2)
    beat(books)
    trip(books, policy=policy)
    cool_off(books)
    for _ in range(6):
        books.store.submit(*letter())
    held = [claim(books, policy=policy) for _ in range(6)]
    assert [len(each) > 1 for each in held] == [True, True, False, False, False, False]


def test_a_probes_place_is_free_again_however_its_owner_leaves(books: Books) -> None:
    beat(books)
    trip(books)
    cool_off(books)
    drained = run(books)
    books.scripts.call("release", drained[0], drained[1], 0, 3, "worker_lost", "drained", "")
    mistaken = claim(books)
    finish(books, mistaken, status="failed", code="invalid_prompt")
    job, _ = letter()
    books.store.submit(job, _)
    assert len(claim(books)) > 1
    assert claim(books) == []
    books.store.cancel(job.id)
    assert len(run(books)) > 1
    assert state(books) is BreakerState.HALF_OPEN


def test_a_probe_whose_owner_dies_frees_its_place_and_opens_the_breaker_for_longer(books: Books) -> None:
    beat(books)
    trip(books)
    cool_off(books)
    books.store.submit(*letter())
    assert len(claim(books, lease=0)) > 1
    books.scripts.call("reap", 0, 10_000, 3, 5000, 100)
    assert state(books) is BreakerState.OPEN
    assert books.client.hget("ph:breaker:m.0", "cool") == str(2 * POLICY.cool_down)
    cool_off(books)
    assert len(claim(books)) > 1


def test_the_first_tokens_of_a_probe_close_the_breaker(books: Books) -> None:
    beat(books)
    trip(books)
    cool_off(books)
    held = run(books)
    assert books.scripts.call("append", held[0], held[1], 3, "", *events.OPENING, events.delta("x")) == 1
    assert state(books) is BreakerState.CLOSED
    assert books.client.zrange("ph:breakers", 0, -1) == []
    assert len(run(books)) > 1


def test_runs_from_before_the_opening_say_nothing_new(books: Books) -> None:
    beat(books)
    old = [run(books) for _ in range(4)]
    trip(books)
    before = books.client.hgetall("ph:breaker:m.0")
    fail(books, old[0])
    finish(books, old[1])
    assert books.client.hgetall("ph:breaker:m.0") == before
    cool_off(books)
    fail(books, old[2])
    assert state(books) is BreakerState.HALF_OPEN


def fail_again(books: Books, held: list, slot: int = 0) -> None:
    """A generation that fails on an instance although it has failed there before."""
    fail(books, held, slot, attempts=9)
    again = claim(books, slot)
    assert again[0] == held[0]
    fail(books, again, slot, attempts=2)


def test_what_one_request_does_again_and_again_is_its_own_fault(books: Books) -> None:
    beat(books)
    for _ in range(POLICY.minimum - 1):
        fail_again(books, run(books))
    assert state(books) is BreakerState.CLOSED
    counted = books.client.hvals("ph:breaker:m.0")
    assert sum(map(int, counted)) == POLICY.minimum - 1
    fail(books, run(books))
    assert state(books) is BreakerState.OPEN


def test_a_probe_that_fails_again_opens_the_breaker_all_the_same(books: Books) -> None:
    beat(books)
    for held in [run(books) for _ in range(POLICY.minimum)]:
        fail(books, held, attempts=9)
    assert state(books) is BreakerState.OPEN
    cool_off(books)
    fail(books, claim(books), attempts=9)
    assert state(books) is BreakerState.OPEN


def test_two_models_and_two_instances_are_independent(books: Books) -> None:
    beat(books, 0)
    beat(books, 1)
    beat(books, 0, model="n")
    trip(books)
    assert (state(books, 1), state(books, model="n")) == (BreakerState.CLOSED, BreakerState.CLOSED)
    assert books.client.lrange("ph:ring:n", 0, -1) == ["n.0"]


def test_a_failed_generation_goes_straight_to_another_instance(books: Books) -> None:
    for slot in range(3):
        beat(books, slot)
    held = run(books, 1)
    outcome, model, slot = fail(books, held, 1, attempts=3)
    assert (outcome, model) == ("requeued", "m")
    assert slot in {"0", "2"}
    assert claim(books, 1)[0] in {"0", "2"}, "the failed one passes the hint on"
    assert claim(books, int(slot))[0] == held[0]


def test_shares_of_equally_free_instances_differ_by_at_most_one(books: Books) -> None:
    for slot in range(3):
        beat(books, slot)
    for slot in range(2):
        beat(books, slot, model="n")
    got: dict[str, Counter[str]] = {"m": Counter(), "n": Counter()}
    for model in ("m", "n") * 20:
        slot = books.store.submit(*letter(model=model)).slot
        assert slot is not None
        got[model][slot] += 1
        finish(books, claim(books, int(slot), model=model))
    for shares in got.values():
        assert max(shares.values()) - min(shares.values()) <= 1


def test_least_loaded_takes_the_least_share_of_places(books: Books) -> None:
    for slot, (used, capacity) in enumerate([(2, 4), (3, 16), (1, 4), (4, 4)]):
        beat(books, slot, capacity=capacity)
        books.client.hset(f"ph:instance:m.{slot}", "in_flight", used)
    job, generation = letter()
    accepted = books.store.submit(job, replace(generation, dispatch=Dispatch(policy="least_loaded")))
    assert accepted.slot == "1"


def conclude(books: Books, held: list, outcome: str) -> None:
    """A run goes well, or its instance fails it and it is tried again, twice."""
    if outcome == "good":
        finish(books, held)
    else:
        fail(books, held, attempts=3)


@pytest.mark.parametrize("seed", range(4))
def test_scripts_and_the_pure_rules_agree_on_every_history(books: Books, seed: int) -> None:
    """Random outcomes, and now and then the end of a cool-down; the state and the admission agree after each."""
    chance = random.Random(seed)
    policy = BreakerPolicy(3_600_000, 4, 0.5, 60_000, 100_000, probes=2)
    beat(books, capacity=64)
    told, now, running, blamed = Breaker(), 0, {}, set()
    for _ in range(60):
        match chance.choice(["claim", "claim", "good", "fault", "fault", "cool"]):
            case "claim":
                if not books.client.exists("ph:line:m"):
                    books.store.submit(*letter(tenant=f"t{next(_tasks)}"))
                held = claim(books, policy=policy)
                assert (len(held) > 1) is admits(told, policy, now)
                if len(held) > 1:
                    running[held[0]] = held
                    if told.state(now) is BreakerState.HALF_OPEN:
                        told = Breaker(until=told.until, cool_down=told.cool_down, probes=told.probes | {held[0]})
                else:
                    for member in books.client.zrange("ph:line:m", 0, -1):
                        books.scripts.call("leave", _job_of(books, member[17:]), "cancelled", "", "")
            case "cool":
                if told.until is not None:
                    cool_off(books)
                    told = Breaker(until=now, cool_down=told.cool_down, probes=told.probes)
            case outcome if running:
                generation = chance.choice(sorted(running))
                held = running.pop(generation)
                conclude(books, held, outcome)
                told = after(told, policy, generation, Outcome(outcome), now, again=generation in blamed)
                blamed |= {generation} if outcome == "fault" else set()
                told = Breaker(told.counts, told.until, told.cool_down, told.probes - {generation})
        assert state(books) is told.state(now)
        assert books.client.hget("ph:breaker:m.0", "cool") == (str(told.cool_down) if told.until is not None else None)


def _job_of(books: Books, generation: str) -> str:
    return books.store.jobs_of_generation(generation, 0, 10)[1][0]
