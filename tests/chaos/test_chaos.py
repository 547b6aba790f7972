"""Real processes are killed and frozen at random moments while jobs run, round after round; then the books are checked.

    CHAOS_ROUNDS=30 CHAOS_JOBS=200 CHAOS_SEED=1 make chaos

Whatever falls over, every accepted job ends once with one terminal state and one webhook id, what was refused never
runs, nothing runs for ever, and no process is left. The seed decides which faults come when; the moments at which they
hit what the processes are doing are the machine's own.

Redis keeps its append-only file with `everysec`. It writes what a command changed to the file before it replies to the
client, so a `kill -9` of Redis loses nothing that was acknowledged, with one exception: while an fsync of the second
before is still under way, the write may be put off for up to two seconds and the reply is not.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.chaos.audit import Audit, Tally
from tests.chaos.faults import FAULTS, LEASE
from tests.chaos.letters import PATIENCE, Clients, Kind, deck
from tests.support import processes
from tests.support.receiver import Receiver
from tests.support.stack import Stack
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "24"))
JOBS = int(os.environ.get("CHAOS_JOBS", "200"))
SEED = int(os.environ.get("CHAOS_SEED", str(random.SystemRandom().randrange(1_000_000))))
FIRST, LAST = 0.5, 6.0  # seconds after the first submit between which a fault strikes

CONFIG = f"""
[models.paced]
engine = "paced"
instances = 2
max_concurrency = 32

[jobs]
lease_seconds = {LEASE:g}
drain_grace_seconds = 2

[health]
probe_seconds = 2
probe_timeout_seconds = 1
backoff_seconds = 0.2
max_backoff_seconds = 1

[webhooks]
allow_hosts = ["127.0.0.1"]
attempt_timeout_seconds = 2
first_retry_seconds = 0.2
per_host = 32
"""

pytestmark = pytest.mark.chaos


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _faults(chance: random.Random) -> Iterator[str]:
    """Each once, in a new order each time."""
    while True:
        yield from chance.sample(sorted(FAULTS), len(FAULTS))


@pytest.mark.timeout(ROUNDS * 120 + 300)
def test_every_accepted_job_ends_once_whatever_falls_over() -> None:
    chance = random.Random(SEED)
    _say(f"\nseed {SEED}, {ROUNDS} rounds of {JOBS} jobs (CHAOS_SEED, CHAOS_ROUNDS, CHAOS_JOBS)")
    receiver = Receiver()
    stack = Stack(CONFIG)
    tally = Tally()
    try:
        audit = Audit(stack, receiver)
        for number, name in zip(range(1, ROUNDS + 1), _faults(chance), strict=False):
            tally.add(_round(stack, receiver, audit, number=number, name=name, chance=random.Random(chance.random())))
        audit.finals_still_hold(tally)
        folder = str(stack.folder)
        status = stack.stop()
        left = [processes.command_line(process) for process in processes.mentioning(folder)]
    except BaseException:
        _say(_end_of_log(stack))
        stack.kill()
        raise
    finally:
        receiver.close()
    _say("\n".join(["", *tally.lines(), f"processes left   {len(left):>7}", *tally.faults]))
    assert (status, left, tally.faults) == (0, [], [])
    assert (tally.doubled, tally.lost, tally.refused_but_ran) == (0, 0, 0)
    assert sum(tally.ended.values()) == tally.accepted == ROUNDS * JOBS
    assert tally.webhook_ids == tally.webhook_jobs


def _round(stack: Stack, receiver: Receiver, audit: Audit, *, number: int, name: str, chance: random.Random) -> Tally:
    _settle(stack)
    began = time.monotonic()
    clients = Clients(stack, receiver.url(), chance, f"round{number}-{SEED}")
    moment = chance.uniform(FIRST, LAST)
    with ThreadPoolExecutor(JOBS) as threads:
        running = [threads.submit(_client, clients, kind, delay) for kind, delay in _plan(chance)]
        wait_until(lambda: time.monotonic() - began > moment, what="the moment comes", limit=LAST + 1)
        details = FAULTS[name](stack, chance)
        _wait_for(running)
    tally = audit.round(clients.accepted, clients.refused, limit=PATIENCE)
    tally.faults += [f"{letter.marker}: no answer within {PATIENCE:g} s" for letter in clients.gave_up]
    seconds = time.monotonic() - began
    _say(
        f"{number:>3}  {name:<20} {details:<9} at {moment:.1f} s: {tally.accepted} accepted, {tally.refused} refused, "
        f"{sum(tally.ended.values())} ended, {tally.retried} tried again, {tally.resumes} resumes, "
        f"{len(tally.faults)} faults, {seconds:.0f} s"
    )
    for fault in tally.faults[:5]:
        _say(f"     {fault}")
    return tally


def _plan(chance: random.Random) -> Iterator[tuple[Kind, float]]:
    """Nine of ten at once, the rest spread over the time in which the fault strikes."""
    for at, kind in enumerate(deck(JOBS, chance)):
        yield kind, (chance.uniform(0, LAST + 2) if at % 10 == 0 else chance.uniform(0, 1))


def _client(clients: Clients, kind: Kind, delay: float) -> None:
    time.sleep(delay)
    clients.run(kind)


def _wait_for(running: list[Future[None]]) -> None:
    for future in running:
        future.result(PATIENCE + 60)


def _settle(stack: Stack) -> None:
    """Every role is up again before the next round."""

    def well() -> bool:
        try:
            status, _ = stack.get("/readyz")
            instances = stack.pool() if status == 200 else []
        except (OSError, AssertionError):
            return False
        return len(instances) == 2 and all(i["state"] == "ready" for i in instances) and bool(stack.pid_of("webhooks"))

    wait_until(well, what="the stack is well again", limit=90, every=0.2)


def _end_of_log(stack: Stack) -> str:
    return "\n".join(line for line in stack.text().splitlines()[-400:] if "method=GET" not in line)
