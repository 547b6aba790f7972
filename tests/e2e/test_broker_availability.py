"""Redis goes away, freezes, drops its connections: answers stay honest and short, and all works again by itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app import settings as configuration
from app.queueing import create_celery
from tests.support.door import KEY
from tests.support.house import House
from tests.support.waiting import wait_until

CONFIG = """
[models.paced]
engine = "paced"
max_concurrency = 4
[jobs]
lease_seconds = 3
not_consuming_seconds = 3
"""
LONGEST_REPLY = 5.0


def test_workers_consume_again_after_redis_was_restarted(stack):
    old = stack.pid_of("redis.jobs")
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: stack.pid_of("redis.jobs") != old, what="Redis is started again")
    assert_five_jobs_run(stack)


def test_workers_consume_again_after_their_connections_were_cut(stack):
    redis = stack.redis()
    for _ in range(3):
        for kind in ("normal", "pubsub"):
            redis.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        end = time.monotonic() + 0.5
        wait_until(lambda until=end: time.monotonic() > until, what="a moment passes")
    assert_five_jobs_run(stack)


def assert_five_jobs_run(stack) -> None:
    wait_until(lambda: stack.get("/readyz")[0] == 200, what="the stack is ready again", limit=30, every=0.1)
    jobs = [stack.submit(f"after the drop {n}")["id"] for n in range(5)]
    assert [stack.ended(job, limit=30)["status"] for job in jobs] == ["completed"] * 5


@pytest.mark.slow
def test_a_worker_that_no_longer_consumes_ends_so_that_another_begins(house):
    """Connected, beating, its engine well, and deaf: the consumer is cancelled behind the worker's back."""
    home = house(CONFIG)
    home.api()
    worker = home.worker()
    assert home.ended(home.submit("before")["id"])["status"] == "completed"

    celery = create_celery(configuration.load(redis={"jobs_url": home.jobs_redis.url()}))
    for queue in ("gpu.paced", "gpu.paced.0"):
        celery.control.cancel_consumer(queue, reply=True, timeout=5)
    job_id = home.submit("during")["id"]

    wait_until(lambda: oldest_seconds(home) > 0.5, what="the metric of the oldest waiting job rises", limit=10)
    assert worker.wait(20) == 70
    wait_until(lambda: home.get("/readyz")[0] == 503, what="readiness is red", limit=10)
    home.worker()
    assert home.ended(job_id)["status"] == "completed"


def oldest_seconds(home) -> float:
    lines = home.ask("GET", "/metrics").body.decode().splitlines()
    found = [line for line in lines if "oldest" in line and 'paced"' in line and not line.startswith("#")]
    assert found, "no metric says how long the oldest job has waited"
    return float(found[0].rsplit(" ", 1)[1])


@pytest.fixture(scope="module")
def bereft() -> Iterator[House]:
    """An API and a worker whose Redis is taken away."""
    home = House(CONFIG)
    try:
        home.api()
        home.worker()
        yield home
    finally:
        home.close()


@pytest.mark.parametrize("away", ["stopped", "frozen"])
def test_without_redis_every_reply_is_short_and_honest(bereft, away):
    home = bereft
    kept = home.submit("kept before")["id"]
    assert home.ended(kept)["status"] == "completed"

    home.jobs_redis.kill() if away == "stopped" else home.jobs_redis.freeze()
    try:
        replies = ask_everything(home, kept)
    finally:
        home.jobs_redis.start() if away == "stopped" else home.jobs_redis.thaw()

    assert max(seconds for _, _, seconds in replies) < LONGEST_REPLY
    for kind, answer, _ in replies:
        assert answer.status == {"live": 200}.get(kind, 503), (kind, answer)
        if kind in {"submit", "wait", "stream", "poll"}:
            assert answer.json["error"]["code"] == "queue_unavailable"
            assert int(answer.headers["retry-after"]) >= 1

    wait_until(lambda: home.get("/readyz")[0] == 200, what="the API is ready again", limit=20, every=0.1)
    assert home.job(kept)["status"] == "completed"
    jobs = [home.submit(f"after {n}")["id"] for n in range(5)]
    assert [home.ended(job)["status"] for job in jobs] == ["completed"] * 5
    assert ran(home, "refused") == []


def ask_everything(home, kept: str) -> list:
    """20 of each at once: submits of each kind, polls, liveness, readiness. (kind, answer, seconds) of each."""
    asked = [
        *(("submit", "POST", "/v1/responses", body(f"refused {n}", background=True)) for n in range(10)),
        *(("wait", "POST", "/v1/responses", body(f"refused {n}")) for n in range(10, 15)),
        *(("stream", "POST", "/v1/responses", body(f"refused {n}", stream=True)) for n in range(15, 20)),
        *[("poll", "GET", f"/v1/responses/{kept}", None)] * 20,
        *[("live", "GET", "/healthz", None)] * 20,
        *[("ready", "GET", "/readyz", None)] * 20,
    ]

    def one(request):
        kind, method, path, content = request
        began = time.monotonic()
        answer = home.ask(method, path, content, key=KEY)
        return kind, answer, time.monotonic() - began

    with ThreadPoolExecutor(len(asked)) as threads:
        return list(threads.map(one, asked))


def body(text: str, **fields) -> dict:
    return {"model": "paced", "input": text, **fields}


def ran(home, marker: str) -> list[str]:
    """Generations with this word in their prompt of which anything was ever run."""
    redis = home.redis()
    return [
        key
        for key in redis.scan_iter("ph:gen:*", _type="hash")
        if marker in (redis.hget(key, "request") or "") and redis.hget(key, "started_at")
    ]
