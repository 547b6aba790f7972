"""The jobs Redis is lost under load and Sentinels make its replica the master: with `durability = "replicated"` nothing
accepted is lost, nothing refused runs, and streams go on where they were."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.chaos.load import Load
from tests.support.sentinels import PASSWORD, SENTINEL_PASSWORD, SERVICE, Fleet
from tests.support.stack import Stack
from tests.support.waiting import wait_until

pytestmark = pytest.mark.chaos

CONFIG = """
[models.paced]
engine = "paced"
instances = 2
max_concurrency = 16
options = {{ ttft_ms = 20, tpot_ms = 20 }}

[jobs]
lease_seconds = 3

[redis]
jobs_url = "redis://:{password}@nowhere.invalid/0"
jobs_sentinels = {sentinels}
jobs_service = "{service}"
sentinel_password = "{sentinel_password}"
durability = "replicated"
"""


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    found = Fleet()
    yield found
    found.close()


@pytest.fixture
def stack(fleet: Fleet) -> Iterator[Stack]:
    config = CONFIG.format(
        password=PASSWORD, sentinels=list(fleet.addresses), service=SERVICE, sentinel_password=SENTINEL_PASSWORD
    ).replace("'", '"')
    found = Stack(config)
    yield found
    if found.process.poll() is None:
        found.kill()


def stream(stack: Stack, events: list[Any]) -> None:
    client = stack.client()
    for event in client.responses.create(model="paced", input="go {{tokens=200 tpot=100}}", stream=True):
        events.append(event)  # noqa: PERF402 -- the test looks at it meanwhile


@pytest.mark.timeout(600)
def test_a_failover_under_load_loses_nothing_that_was_accepted(fleet: Fleet, stack: Stack) -> None:
    events: list[Any] = []
    pool = ThreadPoolExecutor(1)
    streaming = pool.submit(stream, stack, events)
    wait_until(lambda: events or streaming.done(), what="the stream begins", limit=60)
    load = Load(stack)
    wait_until(lambda: len(load.accepted) >= 40, what="some load", limit=120)
    dead = fleet.kill_master()
    new = fleet.failed_over_from(dead)
    dead.start()  # the Sentinels make it a replica, and submits find a replica again
    before = len(load.accepted)
    wait_until(lambda: len(load.accepted) >= before + 40, what="submits are accepted again", limit=120)
    load.stop()

    assert set(load.refused) <= {503}
    assert load.unknown == 0
    ended = [stack.ended(job_id, limit=120) for job_id in load.accepted]
    assert {job["status"] for job in ended} == {"completed"}
    known = {key.removeprefix("ph:job:") for key in new.client().keys("ph:job:resp_*")}
    streaming.result(180)
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[-1].response.status == "completed"
    assert len(events[-1].response.output_text.split()) == 200
    assert known == {*load.accepted, events[0].response.id}, "what was refused left nothing, so it never runs"
    assert len(set(load.accepted)) == len(load.accepted)
    assert int(new.client().hget("ph:stats:paced", "completed") or 0) == len(known), "each ran to its end once"
    assert stack.process.poll() is None
    assert stack.stop() == 0
