"""Hundreds of bad requests: each refused by name, none queued, and the engines do not notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import redis

from tests.support.bad_inputs import BAD, Bad
from tests.support.bad_inputs.request import CHAT, chat
from tests.support.door import Answer
from tests.support.stack import Stack
from tests.support.waiting import wait_until

SLOTS = range(3)


@dataclass(frozen=True)
class Watch:
    """What was kept before the first bad request."""

    stack: Stack
    redis: redis.Redis
    known: frozenset[str]

    def new(self) -> set[str]:
        """Jobs and generations that came since."""
        return records(self.redis) - self.known

    def refused(self, bad: Bad) -> Answer:
        """The answer; on a machine too busy for Redis to answer in time, the next one."""
        headers = {name.replace("-", "_"): value for name, value in bad.headers.items()}

        def ask() -> Answer | None:
            answer = self.stack.ask(bad.method, bad.path, bad.body, **headers)
            return answer if answer.status != 503 else None

        return wait_until(ask, what="Redis answers in time", limit=60)


def records(client: redis.Redis) -> set[str]:
    """Every job and generation that is kept."""
    return {str(key) for kind in ("job", "gen") for key in client.scan_iter(f"ph:{kind}:*", count=1000)}


@pytest.fixture(scope="module")
def watch(running_stack: Stack) -> Iterator[Watch]:
    """Afterwards the engines must be the same processes, and answer as usual."""
    wait_until(lambda: running_stack.get("/readyz")[0] == 200, what="the stack is ready", limit=60)
    engines = [running_stack.engine_pid(slot=slot) for slot in SLOTS]
    with running_stack.redis() as client:
        yield Watch(running_stack, client, frozenset(records(client)))
    assert [running_stack.engine_pid(slot=slot) for slot in SLOTS] == engines
    for slot in SLOTS:
        normal = running_stack.ask("POST", CHAT, chat(messages=[{"role": "user", "content": f"as usual {slot}"}]))
        assert normal.json["choices"][0]["message"]["content"] == f"as usual {slot}"


def test_the_table_is_long_and_has_no_row_twice() -> None:
    rows = {(bad.method, bad.path, bad.name) for bad in BAD}
    assert len(BAD) == len(rows) >= 150


@pytest.mark.parametrize("bad", BAD, ids=[f"{b.method} {b.path[:24]} {b.name}" for b in BAD])
def test_a_bad_request_is_refused_by_name_and_queues_nothing(watch: Watch, bad: Bad) -> None:
    answer = watch.refused(bad)
    assert answer.headers["content-type"] == "application/json"
    error = answer.json["error"]
    assert (answer.status, error["code"], error["param"]) == (bad.status, bad.code, bad.param), error
    assert error["message"]
    assert not watch.new()
