"""An instance under test: all the states that it goes through, and its certain end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from model_pool.instance import Instance, InstanceState

STARTING, READY, UNHEALTHY = InstanceState.STARTING, InstanceState.READY, InstanceState.UNHEALTHY
RESTARTING, STOPPED = InstanceState.RESTARTING, InstanceState.STOPPED


class WatchedInstance:
    """An instance and the states that nobody has asked for yet."""

    def __init__(self, spec, engine, client_factory, health, limit=30) -> None:
        self._states: list[InstanceState] = []
        self._moved = asyncio.Event()
        self._limit = limit
        self.instance = Instance(
            spec, engine, health=health, client_factory=client_factory, on_state=self._move, random=lambda: 0.0
        )

    def _move(self, state) -> None:
        self._states.append(state)
        self._moved.set()

    async def reach(self, *states: InstanceState):
        """Wait until the instance has gone through exactly these states, and forget them."""
        async with asyncio.timeout(self._limit):
            while len(self._states) < len(states):
                self._moved.clear()
                await self._moved.wait()
        seen, self._states = self._states[: len(states)], self._states[len(states) :]
        assert seen == list(states)


@asynccontextmanager
async def running_instance(watched):
    """The instance runs inside the block, and is stopped afterwards whatever the test found."""
    task = asyncio.create_task(watched.instance.run())
    try:
        yield watched
    finally:
        await watched.instance.stop(0)
        await task
