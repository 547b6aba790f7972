"""Waiting for something that happens on the same loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.02


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition came true in so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True
