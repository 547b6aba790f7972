"""Operators take instances out, put them back and start them anew while requests flow, and no request fails."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.support.flow import Flow
from tests.support.stack import KEY, POSTHOUSE, Stack
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def two() -> Iterator[Stack]:
    stack = Stack(args=("--instances", "2"))
    yield stack
    stack.stop()


@pytest.fixture
def flow(two: Stack) -> Iterator[Flow]:
    made = Flow(two)
    made.more(5)
    yield made
    made.end()


def order(stack: Stack, instance: str, wish: str) -> httpx.Response:
    return httpx.post(
        f"{stack.url}/admin/pool/{instance}/{wish}", headers={"Authorization": f"Bearer {KEY}"}, timeout=10
    )


def instance(stack: Stack, name: str) -> dict:
    return next(i for i in stack.pool() if i["id"] == name)


def becomes(stack: Stack, name: str, told: Callable[[dict], bool], what: str) -> None:
    wait_until(lambda: told(instance(stack, name)), what=f"{name} {what}", limit=60, every=0.1)


def test_a_drained_instance_gets_nothing_until_it_is_resumed(two: Stack, flow: Flow) -> None:
    assert order(two, "paced.0", "drain").status_code == 200
    becomes(two, "paced.0", lambda i: i["state"] == "drained", "is drained")
    before = instance(two, "paced.0")["generations"]["started"]
    flow.more(20)
    assert instance(two, "paced.0")["generations"]["started"] == before
    order(two, "paced.0", "resume")
    becomes(two, "paced.0", lambda i: i["generations"]["started"] > before, "runs again")


def test_an_ordered_restart_gives_a_new_process_and_fails_no_request(two: Stack, flow: Flow) -> None:
    before = two.engine_pid(slot=1)
    assert order(two, "paced.1", "restart").status_code == 200
    wait_until(lambda: two.engine_pid(slot=1) != before, what="a new process", limit=60)
    becomes(two, "paced.1", lambda i: i["state"] == "ready" and i["generations"]["started"] > 0, "runs again")
    flow.more(10)


def test_an_unknown_instance_is_not_found(two: Stack) -> None:
    answer = order(two, "paced.9", "drain")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_the_command_line_shows_and_orders(two: Stack) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [POSTHOUSE, "pool", "--data", two.data, *words], capture_output=True, text=True, check=False
        )

    listed = run()
    assert "paced.0" in listed.stdout, listed.stderr
    assert run("drain", "paced.1").returncode == 0
    becomes(two, "paced.1", lambda i: i["state"] == "drained", "is drained")
    assert run("resume", "paced.1").returncode == 0
    becomes(two, "paced.1", lambda i: i["state"] == "ready", "is back")
    wrong = run("drain", "paced.7")
    assert wrong.returncode == 1
    assert "Traceback" not in wrong.stderr
