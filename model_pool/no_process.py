"""A server that somebody else runs: it has no process here, so it neither exits nor can be ended."""

from __future__ import annotations

import asyncio


class NoProcess:
    """Stands where a `KeptProcess` would."""

    pid = None

    async def wait(self) -> int:
        """Never returns: whether the server lives is seen by asking it."""
        await asyncio.get_running_loop().create_future()
        return 0

    async def end(self, grace: float) -> int:  # noqa: ARG002 -- as a process would be ended
        """Nothing to do."""
        return 0
