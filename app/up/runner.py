"""Keeps one role running: starts it, starts it again with backoff when it dies, stops it once asked."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from app.up.child import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.up.console import Console
    from app.up.roles import Role

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# A role that lived this long was healthy: its next death starts the backoff anew.
_HEALTHY_SECONDS = 30.0


def restart_pause(deaths: int) -> float:
    """Seconds to wait before the start that follows the `deaths`-th death in a row (1 is the first): doubling."""
    return min(_FIRST_PAUSE * 2.0 ** min(deaths - 1, 16), _LONGEST_PAUSE)


def describe_status(status: int) -> str:
    """An exit status in words; negative values name the signal, as in `subprocess`."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


class RoleRunner:
    """One role's life. `deaths_in_a_row` counts ends that nobody asked for, without a healthy stretch between."""

    def __init__(
        self,
        role: Role,
        *,
        environment: Mapping[str, str],
        console: Console,
        keep_open: Sequence[int] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.role = role
        self.deaths_in_a_row = 0
        self._environment = environment
        self._console = console
        self._keep_open = keep_open
        self._monotonic = monotonic
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running(), name=self.role.name)

    async def stop(self) -> bool:
        """End the role within its grace. True if it ended by itself."""
        self._stopping.set()
        willing = await self._child.stop(self.role.grace) if self._child else True
        if not willing:
            self._console.line(self.role.name, f"did not end within {self.role.grace:g} s and was killed")
        if self._task:
            await self._task
        return willing

    def kill(self) -> None:
        self._stopping.set()
        if self._child:
            self._child.kill()

    async def _keep_running(self) -> None:
        while not self._stopping.is_set():
            since = self._monotonic()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            lived = self._monotonic() - since
            self.deaths_in_a_row = 1 if lived >= _HEALTHY_SECONDS else self.deaths_in_a_row + 1
            await self._pause(status)

    async def _run_once(self) -> int:
        child = await Child.spawn(
            self.role.argv,
            environment={**self._environment, **self.role.variables},
            hear=lambda line: self._console.line(self.role.name, line),
            keep_open=self._keep_open,
        )
        self._child = child
        if self._stopping.is_set():  # asked to stop while the process was being started
            await child.stop(self.role.grace)
        try:
            return await child.wait()
        finally:
            self._child = None

    async def _pause(self, status: int) -> None:
        pause = restart_pause(self.deaths_in_a_row)
        self._console.line(self.role.name, f"{describe_status(status)}; starting it again in {pause:g} s")
        try:
            await asyncio.wait_for(self._stopping.wait(), pause)
        except TimeoutError:
            return
