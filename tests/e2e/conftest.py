"""One whole stack for most tests, and roles one by one for those that take a stack apart."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from tests.support import processes
from tests.support.house import PACED, House
from tests.support.receiver import Receiver
from tests.support.stack import Stack
from tests.support.waiting import wait_until

CONFIG = """
[models.paced]
engine = "paced"
instances = 3
max_concurrency = 8
context_length = 8192
options = { ttft_ms = 10, tpot_ms = 5 }

[api]
keep_alive_seconds = 0.5

[jobs]
lease_seconds = 3
unstored_retention_seconds = 2

[health]
probe_seconds = 2
probe_timeout_seconds = 1
backoff_seconds = 0.2
max_backoff_seconds = 1

[webhooks]
allow_hosts = ["127.0.0.1"]
first_retry_seconds = 0.2
"""


@pytest.fixture(scope="session")
def running_stack() -> Iterator[Stack]:
    stack = Stack(CONFIG)
    yield stack
    assert stack.stop() == 0


@pytest.fixture
def stack(running_stack: Stack) -> Stack:
    """The shared stack with all of its instances up: whatever a test broke has healed before the next one begins."""
    wait_until(lambda: _well(running_stack), what="all instances are ready and idle", limit=60, every=0.1)
    return running_stack


def _well(stack: Stack) -> bool:
    try:
        status, body = stack.get("/admin/pool")
        running = [processes.engine_counts(stack.socket(slot=slot))["in_flight"] for slot in range(3)]
    except OSError:
        return False
    instances = body["models"]["paced"]["instances"] if status == 200 else []
    tripped = [instance["id"] for instance in instances if instance["breaker"] != "closed"]
    for name in tripped:
        stack.ask("POST", f"/admin/breakers/{name}/reset", {})
    shown = [instance["in_flight"] for instance in instances if instance["state"] == "ready"]
    return not tripped and running == shown == [0, 0, 0]


@pytest.fixture
def client(stack: Stack) -> openai.OpenAI:
    return stack.client()


@pytest.fixture
def house() -> Iterator[Callable[..., House]]:
    """Makes houses (see `tests.support.house`); they are closed after the test."""
    with contextlib.ExitStack() as made:

        def make(config: str = PACED) -> House:
            new = House(config)
            made.callback(new.close)
            return new

        yield make


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


@pytest.fixture
def freeze() -> Iterator[Callable[[int], None]]:
    """SIGSTOP a process; whatever the test does, it goes on afterwards."""
    frozen: list[int] = []

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        frozen.append(pid)

    yield stop
    for pid in frozen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """A test that fails shows what the stack and the houses had logged by then."""
    report = yield
    if report.failed:
        for name, door in getattr(item, "funcargs", {}).items():
            if isinstance(door, Stack | House):
                lines = [line for line in door.text().splitlines() if "method=GET" not in line]
                report.sections.append((f"the log of {name}", "\n".join(lines[-80:])))
    return report
