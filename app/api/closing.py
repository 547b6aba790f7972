"""The end of this process: streams that would outlive the grace period are ended with an error event, not cut off."""

from __future__ import annotations

import time
from collections.abc import Callable

_MARGIN_SECONDS = 2.0


class Closing:
    """Whether this process is going away, and when its open streams must be gone.

    Args:
        grace: seconds between `begin` and the moment at which the server kills what is left.
    """

    def __init__(self, grace: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._grace = grace
        self._monotonic = monotonic
        self._ends_at: float | None = None

    def begin(self) -> None:
        """The process was asked to stop."""
        if self._ends_at is None:
            self._ends_at = self._monotonic() + max(0.0, self._grace - _MARGIN_SECONDS)

    @property
    def begun(self) -> bool:
        return self._ends_at is not None

    @property
    def time_is_up(self) -> bool:
        """Whether an open stream has to end now."""
        return self._ends_at is not None and self._monotonic() >= self._ends_at
