"""What a pool is worth: four instances against one, a killed and a frozen one among four, and the pause after a kill.

One stack of four instances; operators' drains take some of them out where fewer are wanted, so that all is compared in
one run and with the same processes. Every setting that bears on failures is the default.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.support import flow
from benchmarks.support.attempts import Attempt, Attempts
from benchmarks.support.figures import Figure, Outcome, over_rounds
from benchmarks.support.flow import Ran, Sender, saturated_rate
from benchmarks.support.pauses import pauses
from benchmarks.support.progress import Progress
from benchmarks.support.trial import Trial
from tests.support.stack import Stack
from tests.support.waiting import wait_until

MODEL = "paced"
INSTANCES = 4
PLACES = 4  # of each
TPOT_MS = 25
CONFIG = f"""
[models.{MODEL}]
engine = "paced"
instances = {INSTANCES}
max_concurrency = {PLACES}
options = {{ ttft_ms = {TPOT_MS}, tpot_ms = {TPOT_MS} }}
"""
ROUNDS = 3
TOKENS, WAVES = 40, 9  # of a job; that one place runs one after the other
ARRIVALS = 40  # a second, more than four instances do, so that jobs always wait

JOBS, JOB_TOKENS, PER_SECOND = 400, 20, 24  # two instances do 16 a second, four 32
KILLED_AFTER, FROZEN_AFTER = 80, 110  # jobs that have started
KILLED, FROZEN = 1, 2  # slots
THRESHOLD = 5  # faults that open a breaker by default

STREAMS, STREAM_TOKENS = 8, 200
ENGINE_KILLS, WORKER_KILLS = 6, 3
LEASE = 10  # seconds


def measure(progress: Progress, *, rounds: int = ROUNDS) -> Outcome:
    """Scaling, then the flow over bad instances, then the kills."""
    progress("the stack starts")
    stack = Stack(CONFIG)
    try:
        figures = [*_scaling(progress, stack, rounds), *_faults(progress, stack), *_pauses(progress, stack)]
    finally:
        stack.stop()
    conditions = {
        "places": PLACES, "tpot_ms": TPOT_MS, "tokens": TOKENS, "jobs": JOBS, "tokens_of_those": JOB_TOKENS,
        "arrivals_a_second": PER_SECOND, "lease_seconds": LEASE, "streams": STREAMS,
    }  # fmt: skip
    return Outcome("A pool of instances", tuple(figures), conditions)


def _use(stack: Stack, count: int) -> None:
    """So many instances are in the pool, and the others are drained."""
    wait_until(lambda: len(stack.pool()) == INSTANCES, what="all workers have come", limit=180, every=0.2)
    for slot in range(INSTANCES):
        _order(stack, f"pool/{MODEL}.{slot}/{'resume' if slot < count else 'drain'}")
    wait_until(lambda: _well(stack) == count, what=f"{count} instances are in the pool", limit=90, every=0.2)


def _order(stack: Stack, path: str) -> None:
    answer = stack.ask("POST", f"/admin/{path}")
    if answer.status != 200:
        raise RuntimeError(f"{path} was answered with {answer.status}")


def _well(stack: Stack) -> int:
    """Instances that take work. A breaker that waits for a probe is reset: what came before shall not be measured."""
    ready = [found for found in stack.pool() if found["state"] == "ready"]
    for found in ready:
        if found["breaker"] == "half_open":
            _order(stack, f"breakers/{found['id']}/reset")
    return sum(found["breaker"] == "closed" for found in ready)


def _scaling(progress: Progress, stack: Stack, rounds: int) -> list[Figure]:
    rates: dict[int, list[float]] = {1: [], INSTANCES: []}
    for number in range(1, rounds + 1):
        for count, of_count in rates.items():
            progress(f"round {number} of {rounds}, {count} at capacity")
            _use(stack, count)
            of_count.append(_full(stack, PLACES * count))
    one, four = rates.values()
    ideal = 1000 * PLACES / (TOKENS * TPOT_MS)
    ratios = [of_four / of_one for of_four, of_one in zip(four, one, strict=True)]
    return [
        over_rounds("jobs a second of 4 instances ÷ of 1, both full", ratios, at_least=3.8),
        over_rounds(f"jobs a second of 4 instances (their pace allows {INSTANCES * ideal:g})", four, unit="/s"),
        over_rounds(f"jobs a second of 1 instance (its pace allows {ideal:g})", one, unit="/s"),
    ]


def _full(stack: Stack, places: int) -> float:
    client = stack.redis()
    jobs = Sender(client, MODEL).send(WAVES * places, per_second=ARRIVALS, tokens=TOKENS)
    return saturated_rate(_completed(flow.ended(client, jobs, limit=120)), places)


def _completed(jobs: Sequence[Ran]) -> Sequence[Ran]:
    if any(job.status != "completed" for job in jobs):
        raise RuntimeError("not every job was completed")
    return jobs


def _faults(progress: Progress, stack: Stack) -> list[Figure]:
    progress(f"{JOBS} jobs over two healthy instances")
    _use(stack, 2)
    healthy = flow.ended(stack.redis(), _flow(stack), limit=240)
    progress(f"{JOBS} jobs over four, of which one is killed and one frozen")
    _use(stack, INSTANCES)
    trial = _trial(stack)
    killed, frozen = f"{MODEL}.{KILLED}", f"{MODEL}.{FROZEN}"
    of_two, of_others = (max(job.waited for job in jobs) for jobs in (_completed(healthy), trial.others()))
    most = PLACES + THRESHOLD
    return [
        Figure("jobs completed", sum(job.status == "completed" for job in trial.jobs), at_least=JOBS),
        Figure("longest wait of the others ÷ with two healthy instances", of_others / of_two, at_most=1),
        Figure("longest wait of those that neither held", of_others, unit="s"),
        Figure("longest wait with two healthy instances", of_two, unit="s"),
        Figure("jobs that were in flight on the two, or came to them", len(trial.jobs) - len(trial.others())),
        Figure("jobs given to the killed one while it was away", trial.given(killed), at_most=most),
        Figure("jobs given to the frozen one while it stood still", trial.given(frozen), at_most=most),
    ]


def _flow(stack: Stack) -> list[str]:
    return Sender(stack.redis(), MODEL).send(JOBS, per_second=PER_SECOND, tokens=JOB_TOKENS)


def _trial(stack: Stack) -> Trial:
    client = stack.redis()
    before = _done(stack)
    bad = {}
    with Attempts(stack.redis_url) as attempts, ThreadPoolExecutor(1) as thread:
        sent = thread.submit(_flow, stack)
        for after, slot, how in ((KILLED_AFTER, KILLED, signal.SIGKILL), (FROZEN_AFTER, FROZEN, signal.SIGSTOP)):
            pid = stack.engine_pid(slot=slot)
            wait_until(lambda after=after: _done(stack) - before >= after, what=f"{after} jobs are done")
            bad[f"{MODEL}.{slot}"] = time.time()
            os.kill(pid, how)
        jobs = flow.ended(client, sent.result(), limit=240)
        wait_until(lambda: _all_told(jobs, attempts.seen()), what="the workers have told of every run")
        return Trial(jobs, attempts.seen(), bad)


def _done(stack: Stack) -> int:
    return int(stack.redis().hget(f"ph:stats:{MODEL}", "completed") or 0)


def _all_told(jobs: Sequence[Ran], attempts: Sequence[Attempt]) -> bool:
    return {job.generation for job in jobs} <= {attempt.generation for attempt in attempts if attempt.completed}


def _pauses(progress: Progress, stack: Stack) -> list[Figure]:
    progress(f"{ENGINE_KILLS} engines are killed")
    engine = _kills(stack, ENGINE_KILLS, lambda slot: stack.engine_pid(slot=slot))
    progress(f"{WORKER_KILLS} workers are killed")
    worker = _kills(stack, WORKER_KILLS, lambda slot: stack.pid_of(f"gpu.{MODEL}.{slot}"))
    return [
        *_worst_and_median("engine killed: seconds to the next token of its streams", engine, at_most=2),
        *_worst_and_median("worker killed: seconds to the next token of its streams", worker, at_most=LEASE + 1),
    ]


def _kills(stack: Stack, rounds: int, pid_of: Callable[[int], int]) -> list[float]:
    found: list[float] = []
    for number in range(rounds):
        slot = number % INSTANCES
        _use(stack, INSTANCES)  # those that were killed are back
        kill = partial(os.kill, pid_of(slot), signal.SIGKILL)
        found += pauses(stack, MODEL, kill, slot=slot, streams=STREAMS, tokens=STREAM_TOKENS)
    return found


def _worst_and_median(name: str, seconds: Sequence[float], *, at_most: float) -> list[Figure]:
    worst = Figure(f"{name}, worst", max(seconds), unit="s", at_most=at_most, rounds=tuple(seconds))
    return [worst, over_rounds(f"{name}, median", seconds, unit="s")]
