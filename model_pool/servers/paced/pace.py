"""Tokens at their time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_AT_ONCE = 256  # so many tokens without a pace between them go out together, then others have their turn
_EARLY = 1e-3  # of a token's time: the event loop's clock may wake us a hair too early


async def paced(token_ids: Sequence[int], ttft: float, tpot: float) -> AsyncIterator[Sequence[int]]:
    """The tokens in order, in groups of those that are due.

    The first is due `ttft` seconds from now, each other `tpot` seconds after the one before it. A late wake-up does not
    shift what follows: the schedule is fixed at the start.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time() + ttft
    if ttft > 0:
        await asyncio.sleep(ttft)
    sent, total = 0, len(token_ids)
    while sent < total:
        due = sent + _AT_ONCE if tpot <= 0 else int((loop.time() - begin) / tpot + _EARLY) + 1
        if due > sent:
            yield token_ids[sent:due]
            sent = due
        await asyncio.sleep(begin + sent * tpot - loop.time() if tpot > 0 and sent < total else 0)
