"""How many generations an instance has begun, ended and dropped."""

from __future__ import annotations

import asyncio

from model_pool.errors import EngineFailure
from model_pool.instance import Instance, InstanceState
from workers.terms import Counts

_STATS_SECONDS = 0.5


async def counts_of(instance: Instance, own: Counts, *, asked: bool) -> Counts:
    """The server's own counts where it has them (it sees aborts that we only ask for), else ours."""
    if not asked or instance.state is not InstanceState.READY:
        return own
    try:
        async with asyncio.timeout(_STATS_SECONDS):
            stats = await instance.client.stats()
    except (TimeoutError, EngineFailure):
        return own
    return Counts(stats.started, stats.finished, stats.aborted) if stats else own
