"""The supervisor with real processes: what dies comes back, what is stopped is gone, whatever happens to itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue

import psutil
import pytest

from tests.support.waiting import wait_until

PROGRAM = Path(__file__).with_name("supervised.py")
ROOT = Path(__file__).parents[3]
PATIENCE = 30.0

# Says when it starts and when it was asked to end, as a well-behaved role does.
POLITE = """
import signal, sys, time
def bye(*_):
    print("bye", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, bye)
print("hello", flush=True)
while True:
    time.sleep(60)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("hello", flush=True)
while True:
    time.sleep(60)
"""
# Leaves a child behind in its process group, as a gunicorn master does that is killed outright.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(f"child={child.pid}", flush=True)
time.sleep(600)
"""


def role(name: str, program: str, stage: int = 0, grace: float = 20.0) -> list:
    return [name, [sys.executable, "-c", program], stage, grace]


class Stack:
    """The supervised program, its lines as they come, and a wait on a condition with a limit."""

    def __init__(self, *roles: list) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps({"roles": roles})],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._queue: Queue[str | None] = Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.ready = self.wait_line(lambda line: line.startswith("ready "))
        self.pids: dict[str, int] = json.loads(self.ready.removeprefix("ready "))

    def _read(self) -> None:
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def wait_line(self, wanted, times: int = 1) -> str:
        """The `times`-th line of all so far, and to come, that is wanted."""
        until = time.monotonic() + PATIENCE
        while len(found := [line for line in self.lines if wanted(line)]) < times:
            try:
                line = self._queue.get(timeout=max(0.01, until - time.monotonic()))
            except Empty:
                pytest.fail(f"line never came; seen: {self.lines}")
            if line is None:
                pytest.fail(f"output ended; seen: {self.lines}")
            self.lines.append(line)
        return found[times - 1]

    def rest(self) -> list[str]:
        while (line := self._queue.get(timeout=PATIENCE)) is not None:
            self.lines.append(line)
        return self.lines

    def hello(self, name: str, times: int = 1) -> None:
        self.wait_line(lambda line: line.startswith(name) and line.endswith("hello"), times)

    def end(self) -> int:
        return self.process.wait(timeout=PATIENCE)


@pytest.fixture
def stack():
    running: list[Stack] = []

    def start(*roles: list) -> Stack:
        running.append(Stack(*roles))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_gone(*pids: int) -> None:
    wait_until(lambda: all(gone(pid) for pid in pids), what=f"all of {pids} are gone", limit=PATIENCE)


def test_a_role_that_dies_is_started_again(stack):
    one = stack(role("a", POLITE), role("b", POLITE))
    one.hello("a")
    os.kill(one.pids["a"], signal.SIGKILL)
    one.wait_line(lambda line: line.startswith("a") and "was ended by SIGKILL" in line)
    one.hello("a", times=2)
    assert psutil.pid_exists(one.pids["b"])


def test_sigint_stops_stage_by_stage_and_exits_0(stack):
    one = stack(role("first", POLITE, 0), role("second", POLITE, 1), role("third", POLITE, 4))
    for name in one.pids:
        one.hello(name)
    one.process.send_signal(signal.SIGINT)
    farewells = [line.split()[0] for line in one.rest() if line.endswith("bye")]
    assert one.end() == 0
    assert farewells == ["first", "second", "third"]
    wait_gone(*one.pids.values())


def test_sigterm_is_a_clean_stop_too(stack):
    one = stack(role("a", POLITE))
    one.hello("a")
    one.process.terminate()
    assert one.end() == 0
    assert any(line.endswith("bye") for line in one.rest())


def test_a_deaf_role_is_killed_after_its_grace(stack):
    one = stack(role("deaf", DEAF, grace=0.2))
    one.hello("deaf")
    one.process.send_signal(signal.SIGINT)
    assert one.end() == 0
    assert any("was killed" in line for line in one.rest())
    wait_gone(one.pids["deaf"])


def test_a_second_ctrl_c_ends_everything_at_once(stack):
    one = stack(role("deaf", DEAF, grace=600))
    one.hello("deaf")
    one.process.send_signal(signal.SIGINT)
    one.wait_line(lambda line: "stopping deaf" in line)
    one.process.send_signal(signal.SIGINT)
    assert one.end() == 130
    wait_gone(one.pids["deaf"])


def test_no_role_outlives_a_supervisor_that_is_killed(stack):
    one = stack(role("polite", POLITE), role("deaf", DEAF))
    one.process.kill()
    one.process.wait()
    wait_gone(*one.pids.values())


def test_what_a_dead_role_left_in_its_group_is_ended_before_the_next_start(stack):
    one = stack(role("p", PARENT))
    left = int(one.wait_line(lambda line: "child=" in line).split("child=")[1])
    os.kill(one.pids["p"], signal.SIGKILL)
    one.wait_line(lambda line: "child=" in line, times=2)
    assert gone(left)


def test_a_terminals_ctrl_c_reaches_the_supervisor_alone(stack):
    one = stack(role("a", POLITE))
    assert os.getpgid(one.pids["a"]) != os.getpgid(one.process.pid)
