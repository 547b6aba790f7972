"""How much of the machine other work takes while a benchmark runs: numbers of a busy machine judge nothing."""

from __future__ import annotations

import os
import time

import psutil

QUIET = 0.1  # cores


class Neighbours:
    """Counts from its making on. Correct once every process of the benchmark has ended and been waited for."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._others = _busy() - _own()

    def cores(self) -> float:
        """Cores that processes of others have used on average since."""
        return max(0.0, (_busy() - _own() - self._others) / (time.monotonic() - self._began))


def _busy() -> float:
    """Seconds of all cores that were not idle."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)  # guests' stand in user too


def _own() -> float:
    """Seconds of this process and of all that it has waited for."""
    return sum(os.times()[:4])
