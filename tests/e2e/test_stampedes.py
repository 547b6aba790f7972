"""A hundred who ask the same at once through two API processes: one engine call a burst, whatever happens to it."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import processes
from tests.support.receiver import Receiver
from tests.support.stack import Stack
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CROWD = 100
TTL = 8
CONFIG = f"""
[models.paced]
engine = "paced"
instances = 2
max_concurrency = 8
[models.paced.cache]
ttl = {TTL}
jitter = 0
stale_seconds = 0
[api]
processes = 2
[jobs]
lease_seconds = 3
[webhooks]
allow_hosts = ["127.0.0.1"]
per_host = 64
"""


@pytest.fixture(scope="module")
def wide() -> Iterator[Stack]:
    stack = Stack(CONFIG)
    yield stack
    assert stack.stop() == 0


def crowd(stack: Stack, text: str, hook: str, meanwhile: Callable[[], object] = lambda: None) -> list[dict[str, Any]]:
    """All ask at once; what their jobs ended as."""
    with ThreadPoolExecutor(CROWD) as threads:
        asking = [threads.submit(stack.submit, text, temperature=0, webhook={"url": hook}) for _ in range(CROWD)]
        meanwhile()
        ids = [each.result(60)["id"] for each in asking]
        assert len(set(ids)) == CROWD
        return list(threads.map(lambda job_id: stack.ended(job_id, limit=90), ids))


def all_are_told(receiver: Receiver, jobs: list[dict[str, Any]]) -> None:
    """Each job has a webhook of its own, and none has two."""

    def told() -> Counter[str]:
        ids = {job["id"] for job in jobs}
        return Counter(job_id for got in list(receiver.received) if (job_id := subject(got.body)) in ids)

    wait_until(lambda: len(told()) == CROWD, what="a webhook for each", limit=60, every=0.2)
    assert set(told().values()) == {1}


def subject(body: bytes) -> str:
    return str(json.loads(body)["data"]["id"])


def test_two_processes_serve_the_crowd(wide: Stack) -> None:
    gunicorns = [p for p in processes.below(wide.process.pid) if "gunicorn" in processes.command_line(p)]
    assert len(gunicorns) == 3, "one above two that serve"


def test_a_crowd_is_one_generation_and_so_is_the_next_once_the_answer_has_expired(
    wide: Stack, receiver: Receiver
) -> None:
    text = "{{ttft=2000 tokens=5}} what does everybody ask"
    for _ in range(2):
        before = wide.ended_generations()
        jobs = crowd(wide, text, receiver.url())
        assert {job["status"] for job in jobs} == {"completed"}
        assert len({wide.text_of(job) for job in jobs}) == 1
        where = Counter(job["cache"] for job in jobs)
        assert where["miss"] == 1
        assert where["joined"] + where["hit"] == CROWD - 1, "who comes late finds the answer in the cache"
        assert wide.ended_generations() - before == 1
        all_are_told(receiver, jobs)
        wait_until(lambda: only_if_cached(wide, text) == 504, what="the answer has expired", limit=60, every=0.2)


def only_if_cached(stack: Stack, text: str) -> int:
    body = {"model": "paced", "input": text, "temperature": 0}
    return stack.ask("POST", "/v1/responses", body, **{"Cache-Control": "only-if-cached"}).status


@pytest.mark.parametrize("victim", ["worker", "engine"])
def test_a_crowd_gets_its_answer_although_what_computes_it_is_killed(
    wide: Stack, receiver: Receiver, victim: str
) -> None:
    text = f"{{{{ttft=1500 tpot=50 tokens=200}}}} what when the {victim} dies"
    before = wide.ended_generations()

    def kill() -> None:
        held = wait_until(lambda: wide.redis().zrange("ph:running", 0, 0), what="it runs", limit=30)[0]
        slot = int(str(wide.redis().hget(f"ph:gen:{held}", "instance")).rsplit(".", 1)[1])
        os.kill(wide.pid_of(f"gpu.paced.{slot}") if victim == "worker" else wide.engine_pid(slot=slot), signal.SIGKILL)

    jobs = crowd(wide, text, receiver.url(), kill)
    assert {job["status"] for job in jobs} == {"completed"}
    assert {job["attempts"] for job in jobs} == {2}
    assert {len(wide.text_of(job).split()) for job in jobs} == {200}
    assert wide.ended_generations() - before == 1
    all_are_told(receiver, jobs)
    wait_until(
        lambda: {i["state"] for i in wide.pool()} == {"ready"}, what="both instances are back", limit=60, every=0.2
    )
