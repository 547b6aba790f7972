"""A server process under a keeper, as the worker's asyncio loop sees it: started, waited for, ended for certain."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from model_pool import slots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# The keeper itself gives up on a process that survives SIGKILL for 5 seconds.
_KEEPER_SECONDS = 8.0
_HELLO_SECONDS = 10.0
_SIGNALLED = 128


class KeptProcess:
    """One running server and the keeper above it.

    Attributes:
        pid: of the server; also its process group.
    """

    def __init__(self, keeper: asyncio.subprocess.Process, line: socket.socket, record: Path, pid: int) -> None:
        self._keeper = keeper
        self._line = line
        self._record = record
        self.pid = pid

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str], record: Path) -> Self:
        """Start `command`; its output goes where this process's output goes.

        Args:
            command: the server's command line.
            environment: all of the server's environment variables.
            record: the slot's record file.

        Raises:
            OSError: the keeper did not come up.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                keeper = await _start_keeper(command, environment, record, theirs.fileno())
            hello = await _hello(ours)
        except BaseException:
            ours.close()  # the keeper, if there is one, ends its server and itself
            raise
        if not hello:
            ours.close()
            msg = f"the keeper of {record.stem} ended with status {await keeper.wait()} before its server had started"
            raise OSError(msg)
        return cls(keeper, ours, record, int(hello))

    async def wait(self) -> int:
        """The server's exit status, once it and everything that it started have ended; -N if signal N ended it."""
        status = await self._keeper.wait()
        return _SIGNALLED - status if status > _SIGNALLED else status

    async def end(self, grace: float) -> int:
        """End the server and all that it started: SIGTERM, `grace` seconds, SIGKILL. Returns its exit status."""
        with suppress(OSError):  # nobody reads it any more: the keeper has already ended
            self._line.send(f"{grace}\n".encode())
        try:
            return await asyncio.wait_for(asyncio.shield(self.wait()), grace + _KEEPER_SECONDS)
        except TimeoutError:
            return await self._end_keeper()
        finally:
            self._line.close()

    async def _end_keeper(self) -> int:
        """The keeper does not do its work, frozen perhaps: end it, and do its work from the slot's record."""
        with suppress(ProcessLookupError):
            self._keeper.send_signal(signal.SIGKILL)
        status = await self.wait()
        await asyncio.to_thread(slots.end_recorded, self._record)
        return status


def inherited(additions: Mapping[str, str]) -> dict[str, str]:
    """This process's environment and `additions` for a child, without the product's own settings: they hold secrets."""
    passed_on = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
    return {**passed_on, **additions}


async def _start_keeper(
    command: Sequence[str], environment: Mapping[str, str], record: Path, fd: int
) -> asyncio.subprocess.Process:
    keeper = [sys.executable, "-m", "model_pool.keeper", "--parent-fd", str(fd), "--record", str(record), "--"]
    return await asyncio.create_subprocess_exec(
        *keeper,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        env=dict(environment),
        pass_fds=(fd,),
        # Ctrl-C at a terminal goes to the worker's group: the worker drains first and needs its engine for that.
        start_new_session=True,
    )


async def _hello(line: socket.socket) -> bytes:
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(line, 32), _HELLO_SECONDS)
