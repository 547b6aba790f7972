"""How much of the machine other work takes while a benchmark runs: numbers of a busy machine judge nothing."""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Self

import psutil

QUIET = 0.1  # cores
_LOOK_SECONDS = 2.0


class Neighbours:
    """A context; `cores` counts from its entry on.

    What this process has waited for is known to the kernel. An engine, though, is ended by its keeper and waited for
    by nobody of ours, so the living are looked at every other second as well, and the larger sum of both is ours.
    """

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._began, self._busy = time.monotonic(), _busy()
        self._own_at_entry, self._at_entry = sum(os.times()[:2]), sum(os.times()[:4])
        self._looking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._looking.join()

    def cores(self) -> float:
        """Cores that processes of others have used on average since the entry."""
        user, system, children_user, children_system, _ = os.times()
        waited = user + system + children_user + children_system - self._at_entry
        seen = user + system - self._own_at_entry + sum(self._seen.values())
        ours = max(waited, seen)
        return max(0.0, (_busy() - self._busy - ours) / (time.monotonic() - self._began))

    def _look_on(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            for process in psutil.Process().children(recursive=True):
                try:
                    self._seen[process.pid] = sum(process.cpu_times()[:2])
                except psutil.NoSuchProcess:
                    continue


def _busy() -> float:
    """Seconds of all cores that were not idle."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)  # guests' stand in user too
