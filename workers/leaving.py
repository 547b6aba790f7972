"""How a worker process ends: at SIGTERM by a bounded drain, at the second one at once, at a fault with a status.

Celery's own warm shutdown on threads waits for ever and ignores a second SIGTERM, so these handlers take its place.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import structlog
from celery.worker import state

EXIT_FAULT = 70  # EX_SOFTWARE of sysexits.h: a part of the worker failed, or it no longer consumes
_LAST_RESORT_SECONDS = 8.0

_log = structlog.get_logger(__name__)


class Leaving:
    """Turns signals into a drain and the end of a drain into the end of the process.

    Args:
        drain: begins the drain and returns at once; calls `done` when it is over.
        hurry: a second signal: hand everything back now.
    """

    def __init__(self, drain: Callable[[Callable[[], None]], None], hurry: Callable[[], None]) -> None:
        self._drain = drain
        self._hurry = hurry
        self.asked = threading.Event()
        self.over = threading.Event()

    def install(self) -> None:
        """Take the signals. In the main thread, after Celery has set its own handlers."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, self._signalled)

    def _signalled(self, number: int, _frame: Any) -> None:
        if self.asked.is_set():
            self._hurry()
            return
        self.asked.set()
        # The handler runs between two instructions of the main thread, which may hold a logging lock.
        threading.Thread(target=self._begin, args=(number,), name="leaving", daemon=True).start()

    def _begin(self, number: int) -> None:
        _log.info("stopping", signal=signal.Signals(number).name)
        self._drain(self.finish)

    def finish(self) -> None:
        """Everything is handed back: let Celery end, and see to it that it does."""
        self.over.set()
        state.should_stop = os.EX_OK
        last_resort = threading.Timer(_LAST_RESORT_SECONDS, os._exit, (os.EX_OK,))
        last_resort.daemon = True
        last_resort.start()


def fault(reason: str) -> None:
    """End the process now, with a status that makes its supervisor start another. The keeper ends the engine."""
    _log.critical("worker_fault", reason=reason)
    os._exit(EXIT_FAULT)
