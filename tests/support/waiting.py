"""Tests wait on conditions, with a limit that says what never came true."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, what: str, limit: float = 30, every: float = 0.02) -> T:
    """Call `condition` until it gives something true; return that, or fail after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit} s: {what}")
        time.sleep(every)


async def until(
    condition: Callable[[], T | Awaitable[T]], *, what: str = "the condition", limit: float = 30, every: float = 0.01
) -> T:
    """`wait_until` for a test on an event loop, which goes on running; the condition may be a coroutine function."""
    try:
        async with asyncio.timeout(limit):
            while True:
                found = condition()
                value: T = await found if inspect.isawaitable(found) else found  # type: ignore[assignment]
                if value:
                    return value
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"not within {limit} s: {what}") from None
