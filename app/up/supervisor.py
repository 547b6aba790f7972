"""Runs the roles of one machine together and ends them in order, bounded.

Nothing here knows what the roles are. A role that dies is started again; stopping goes stage by stage, so that whoever
needs another role ends before it. When the supervisor itself is killed, the kernel ends the roles (see `bound.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.up.child import Child
from app.up.runner import RoleRunner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from app.up.console import Console
    from app.up.roles import Role


class RoleFailedError(Exception):
    """A role died again and again before the stack was ever ready."""


class Supervisor:
    """Starts, watches and stops roles. Use from one asyncio loop on the main thread."""

    def __init__(self, console: Console, environment: Mapping[str, str], keep_open: Sequence[int] = ()) -> None:
        self._console = console
        self._environment = environment
        self._keep_open = keep_open
        self._runners: list[RoleRunner] = []
        self._hard = False
        self._stopping = False

    def start(self, roles: Iterable[Role]) -> None:
        """Start these roles now; they are kept running until `stop`, which nothing is started after."""
        for role in () if self._stopping else roles:
            runner = RoleRunner(role, environment=self._environment, console=self._console, keep_open=self._keep_open)
            self._runners.append(runner)
            runner.start()

    async def end(self, names: Collection[str]) -> None:
        """End these roles for good, all at once, each within its grace."""
        ending = [runner for runner in self._runners if runner.role.name in names]
        await asyncio.gather(*(runner.stop() for runner in ending))
        self._runners = [runner for runner in self._runners if runner not in ending]

    def deaths(self, name: str) -> int:
        """How often a role has died in a row; 0 when there is none of this name."""
        return max((runner.deaths_in_a_row for runner in self._runners if runner.role.name == name), default=0)

    async def run_to_end(self, role: Role) -> int:
        """Run a command once, with its lines shown, and return its exit status; a cancelled wait ends it."""
        self._console.expect([role.name])
        child = await Child.spawn(
            role.argv, environment=self._environment, hear=lambda line: self._console.line(role.name, line)
        )
        try:
            return await child.wait()
        except asyncio.CancelledError:
            await child.stop(role.grace)
            await child.wait()
            raise

    def pids(self) -> dict[str, int | None]:
        """Each role's process at this moment; None between a death and the next start."""
        return {runner.role.name: runner.pid for runner in self._runners}

    def check(self, most_deaths: int) -> None:
        """Complain about a role that cannot live.

        Raises:
            RoleFailedError: a vital role died `most_deaths` times in a row.
        """
        for runner in self._runners:
            if runner.role.vital and runner.deaths_in_a_row >= most_deaths:
                raise RoleFailedError(
                    f"{runner.role.name} died {runner.deaths_in_a_row} times in a row; its last lines above say why"
                )

    async def stop(self) -> None:
        """End all roles, stage by stage; within a stage all at once. Bounded by the stages' longest graces."""
        self._stopping = True
        for stage in sorted({runner.role.stage for runner in self._runners}):
            ending = [runner for runner in self._runners if runner.role.stage == stage]
            if not self._hard:
                self._console.say("stopping " + ", ".join(runner.role.name for runner in ending))
            await asyncio.gather(*(runner.stop() for runner in ending))

    def kill(self) -> None:
        """End everything at once: the operator asked a second time."""
        self._hard = True
        for runner in self._runners:
            runner.kill()
