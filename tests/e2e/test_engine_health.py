"""An engine that died or stands still is taken out, its work goes on, and it comes back."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.events import counting, numbers, text
from tests.support.house import House, Part
from tests.support.waiting import wait_until

PROBE_SECONDS = 1.0
CONFIG = f"""
[models.paced]
engine = "paced"
max_concurrency = 4
[health]
probe_seconds = {PROBE_SECONDS}
probe_timeout_seconds = 0.5
backoff_seconds = 0.5
max_backoff_seconds = 2
"""


@pytest.fixture(scope="module")
def stable() -> Iterator[tuple[House, Part]]:
    """An API and one GPU worker."""
    home = House(CONFIG)
    try:
        home.api()
        yield home, home.worker()
    finally:
        home.close()


@contextlib.contextmanager
def watching(home):
    """Looks at liveness, readiness and the pool all the time; gives what was seen as (seconds, live, ready, state)."""
    seen: list[tuple[float, int, int, str]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.03):
            statuses = home.get("/healthz")[0], home.get("/readyz")[0]
            seen.append((time.monotonic(), *statuses, home.pool()[0]["state"]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_an_engine_without_progress_is_out_within_two_probe_periods_and_comes_back(stable, fault):
    home, worker = stable
    stream = home.client().responses.create(model="paced", input="{{tokens=100 tpot=30}}", background=True, stream=True)
    events = [next(stream) for _ in range(20)]
    engine = home.engine_pid(worker)

    with watching(home) as seen:
        os.kill(engine, fault)
        broken_at = time.monotonic()
        waiting = home.submit("{{tokens=3}}")["id"]
        wait_until(lambda: any(ready == 503 for _, _, ready, _ in seen), what="readiness turns red", limit=10)
        events += stream
        wait_until(lambda: seen[-1][2] == 200, what="readiness is green again", limit=20)

    out_after = next(at for at, _, ready, _ in seen if ready == 503) - broken_at
    assert out_after < 2 * PROBE_SECONDS + 1.0, f"it took {out_after:.1f} s"  # and a second for a loaded machine
    assert {live for _, live, _, _ in seen} == {200}
    assert "restarting" in {state for _, _, _, state in seen}, "the pool did not show it"
    assert text(events) == counting(100)
    assert numbers(events) == list(range(len(events)))
    assert home.text_of(home.ended(waiting)) == counting(3)
    assert home.engine_pid(worker) != engine
    assert home.pool()[0]["state"] == "ready"
    assert worker.status is None


def test_an_engine_that_fails_every_call_is_replaced(stable):
    """`sticky`: the server lives and answers, but each answer is an error, as after a CUDA fault."""
    home, worker = stable
    engine = home.engine_pid(worker)
    sick = home.submit("{{sticky}}")["id"]
    job = home.ended(sick, limit=60)
    assert (job["status"], job["error"]["code"], job["attempts"]) == ("failed", "engine_error", 3)
    wait_until(lambda: home.engine_pid(worker) != engine, what="the engine was replaced", limit=20)
    assert home.text_of(home.ended(home.submit("well again")["id"], limit=30)) == "well again"


def test_work_waits_for_an_instance_and_ends_at_its_deadline_without_one(house):
    home = house(CONFIG)
    home.api()
    worker = home.worker()
    assert worker.terminate() == 0
    wait_until(lambda: home.get("/readyz")[0] == 503, what="nobody is there", limit=10)
    patient = home.submit("waits")["id"]
    other = home.worker(slot=1)
    hasty = home.submit("{{tokens=500 tpot=30}}", deadline_seconds=2)["id"]
    assert home.ended(patient)["status"] == "completed"
    job = home.ended(hasty, limit=10)
    assert (job["status"], job["error"]["code"]) == ("failed", "deadline_exceeded")
    assert other.status is None
