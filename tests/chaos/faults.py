"""What goes wrong, one thing a round: processes are killed, Redis is restarted or stands still."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tests.support import processes
from tests.support.stack import Stack

LEASE = 3.0  # seconds, as the stack is configured
Fault = Callable[[Stack, random.Random], str]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_gpu_worker(stack: Stack, chance: random.Random) -> str:
    slot = chance.randrange(2)
    _kill(stack.pid_of(f"gpu.paced.{slot}"))
    return f"worker {slot}"


def kill_engine(stack: Stack, chance: random.Random) -> str:
    slot = chance.randrange(2)
    _kill(stack.engine_pid(slot=slot))
    return f"engine {slot}"


def kill_api(stack: Stack, chance: random.Random) -> str:
    """The whole API, or only the process that serves, or only the one above it."""
    found = [p for p in processes.below(stack.process.pid) if "gunicorn" in processes.command_line(p)]
    assert len(found) > 1, "the API is a process that serves and one above it"
    which = chance.choice(("all", "first", "last"))
    for process in {"all": found, "first": found[:1], "last": found[-1:]}[which]:
        _kill(process.pid)
    return which


def kill_webhook_worker(stack: Stack, chance: random.Random) -> str:
    _kill(stack.pid_of("webhooks"))
    return ""


def restart_redis(stack: Stack, chance: random.Random) -> str:
    """kill -9; the supervisor starts it again and it reads its append-only file."""
    _kill(stack.pid_of("redis.jobs"))
    return ""


def freeze_redis(stack: Stack, chance: random.Random) -> str:
    """For longer than a lease."""
    seconds = chance.uniform(LEASE + 0.5, LEASE + 3)
    pid = stack.pid_of("redis.jobs")
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)
    return f"{seconds:.1f} s"


FAULTS: dict[str, Fault] = {
    "kill gpu worker": kill_gpu_worker,
    "kill engine": kill_engine,
    "kill api": kill_api,
    "kill webhook worker": kill_webhook_worker,
    "restart redis": restart_redis,
    "freeze redis": freeze_redis,
}
