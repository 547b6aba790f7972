"""How long Redis keeps others waiting: a connection of its own that pings every millisecond.

A process of its own. It prints its figures as JSON when its standard input is closed. Its times hold what the machine
takes to wake it and Redis up, too; how long Redis itself was busy is in Redis' slow log.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import redis

from benchmarks.support.figures import percentile

_EVERY = 0.001


@dataclass(frozen=True)
class Pings:
    """What the prober saw: how many pings, and how long the longest and the 99.9th of a hundred took. Seconds."""

    count: int
    longest: float
    p999: float


class Prober:
    """A context; `pings` once it has been left."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url

    def __enter__(self) -> Self:
        words = [sys.executable, "-m", "benchmarks.support.prober", self._url]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not self._process.stdout or not self._process.stdout.readline():
            raise RuntimeError("the prober did not begin")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        out, _ = self._process.communicate(timeout=30)
        self.pings = Pings(**json.loads(out))


def main() -> None:
    client = redis.Redis.from_url(sys.argv[1], protocol=2)
    client.ping()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    seconds = []
    while not select.select([sys.stdin], [], [], _EVERY)[0]:
        sent = time.monotonic()
        client.ping()
        seconds.append(time.monotonic() - sent)
    json.dump({"count": len(seconds), "longest": max(seconds), "p999": percentile(seconds, 0.999)}, sys.stdout)


if __name__ == "__main__":
    main()
