"""Many writes in one round trip; nothing is lost or doubled while Redis is away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import redis

from app.jobs.generation import CanonicalRequest, Claim
from app.jobs.work import WorkStore
from app.lua import Call
from tests.support.waiting import until
from workers.flusher import Flusher
from workers.run import Run


class Rounds(WorkStore):
    """Records each round; fails the first `failures` of them."""

    def __init__(self, failures: int = 0, reply: Any = 1) -> None:
        self.sent: list[list[Call]] = []
        self._lease_ms = 1000
        self._failures = failures
        self._reply = reply

    async def send(self, calls: Sequence[Call]) -> list[Any]:
        self.sent.append(list(calls))
        if self._failures:
            self._failures -= 1
            raise redis.TimeoutError
        return [[] if name == "renew" else self._reply for name, _ in calls]


def a_run(name: str = "gen_1") -> Run:
    request = CanonicalRequest([], {"max_tokens": 5})
    return Run(Claim(name, 1, 1, 3, 0, 0, request, "t", (), resumed=False, continuable=True), 3)


def drive(test: Any) -> None:
    async def main() -> None:
        await asyncio.wait_for(test(), 10)

    asyncio.run(main())


def test_tokens_of_all_streams_leave_in_one_round() -> None:
    async def test() -> None:
        work = Rounds()
        flusher = Flusher(work, tick=0.01, renew_every=1000)
        runs = [a_run(f"gen_{n}") for n in range(3)]
        for run in runs:
            flusher.add(run)
            run.pending.append('{"k":"delta"}')
        task = asyncio.create_task(flusher.run())
        await until(lambda: all(run.sequence == 4 for run in runs))
        task.cancel()
        assert [name for name, _ in work.sent[0]] == ["append"] * 3

    drive(test)


def test_while_redis_is_away_the_same_calls_are_sent_again_unchanged() -> None:
    async def test() -> None:
        work = Rounds(failures=2)
        flusher = Flusher(work, tick=0.01, renew_every=1000)
        run = a_run()
        flusher.add(run)
        run.pending.append("first")
        task = asyncio.create_task(flusher.run())
        await until(lambda: work.sent)
        run.pending.append("second")
        await until(lambda: run.sequence == 5)
        task.cancel()
        firsts = [call for round_ in work.sent for call in round_ if call[1][-1] == "first"]
        assert len(firsts) == 3
        assert len({tuple(call[1]) for call in firsts}) == 1

    drive(test)


def test_a_refused_append_stops_the_run() -> None:
    async def test() -> None:
        flusher = Flusher(Rounds(reply=0), tick=0.01, renew_every=1000)
        run = a_run()
        run.task = asyncio.create_task(asyncio.sleep(60))
        flusher.add(run)
        run.pending.append("x")
        task = asyncio.create_task(flusher.run())
        with pytest.raises(asyncio.CancelledError):
            await run.task
        task.cancel()
        assert run.lost

    drive(test)


def test_a_refusal_while_the_verdict_is_on_its_way_marks_the_run_and_interrupts_nothing() -> None:
    async def test() -> None:
        flusher = Flusher(Rounds(failures=1, reply=0), tick=0.01, renew_every=1000)
        run = a_run()
        flusher.add(run)
        run.pending.append("x")
        task = asyncio.create_task(flusher.run())
        await until(lambda: run.batch)
        run.task = asyncio.create_task(flusher.settle(run))
        await run.task
        task.cancel()
        assert run.lost

    drive(test)


def test_settling_waits_for_what_is_on_its_way() -> None:
    async def test() -> None:
        flusher = Flusher(Rounds(failures=1), tick=0.01, renew_every=1000)
        run = a_run()
        flusher.add(run)
        run.pending.append("x")
        task = asyncio.create_task(flusher.run())
        await until(lambda: run.batch)
        await flusher.settle(run)
        task.cancel()
        assert (run.batch, run.sequence) == ([], 4)

    drive(test)


def test_a_script_error_reaches_the_caller() -> None:
    async def test() -> None:
        flusher = Flusher(Rounds(reply=redis.ResponseError("bad")), tick=0.01, renew_every=1000)
        task = asyncio.create_task(flusher.run())
        with pytest.raises(redis.ResponseError):
            await flusher.call(("claim", ()))
        task.cancel()

    drive(test)


def test_a_lease_lost_by_an_earlier_run_of_a_generation_says_nothing_of_a_later_one() -> None:
    class FirstFenceIsLost(Rounds):
        async def send(self, calls: Sequence[Call]) -> list[Any]:
            await super().send(calls)
            return [["gen_1"] if call[1][2] == 1 else [] for call in calls]

    async def test() -> None:
        work = FirstFenceIsLost(failures=1)
        flusher = Flusher(work, tick=0.01, renew_every=0)
        earlier, later = a_run(), a_run()
        later.claim = replace(later.claim, fence=2)
        earlier.task = later.task = asyncio.create_task(asyncio.sleep(60))
        flusher.add(earlier)
        task = asyncio.create_task(flusher.run())
        await until(lambda: work.sent)
        flusher.add(later)
        await until(lambda: work.sent[-1][0][1][2] == 2)
        task.cancel()
        assert (len(work.sent[1]), later.lost) == (1, False)
        later.task.cancel()

    drive(test)


def test_an_idle_flusher_wakes_for_a_run_whose_lease_must_be_renewed() -> None:
    async def test() -> None:
        work = Rounds()
        flusher = Flusher(work, tick=0.01, renew_every=0)
        task = asyncio.create_task(flusher.run())
        await asyncio.sleep(0)  # it waits for something to do
        run = a_run()
        run.task = asyncio.create_task(asyncio.sleep(60))
        flusher.add(run)
        await until(lambda: sum(name == "renew" for round_ in work.sent for name, _ in round_) > 1)
        run.task.cancel()
        task.cancel()

    drive(test)
