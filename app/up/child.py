"""One process of a role: in a process group of its own, its output read line by line, gone when we are gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.up.lines import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_BOUND = Path(__file__).with_name("bound.py")
_CHUNK = 65_536
# What a process leaves behind in its group (gunicorn's workers after their master was killed) has this long to notice.
_LEFTOVERS_SECONDS = 3.0
_POLL_SECONDS = 0.05


class Child:
    """A started process. Its group id is its pid: a terminal's Ctrl-C reaches the supervisor alone."""

    def __init__(self, process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
        self._process = process
        self._reading = reading

    @classmethod
    async def spawn(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        hear: Callable[[str], None],
        keep_open: Sequence[int] = (),
    ) -> Child:
        """Start `argv`; `hear` gets each line that it prints.

        Must be called on the main thread: the kernel's death signal follows the thread that forks.
        """
        # A pipe of our own: asyncio's wait() for a process with its pipes lasts until grandchildren have closed them.
        ours, theirs = os.pipe()
        reading = asyncio.create_task(_read(ours, hear))
        try:
            process = await _exec(argv, environment, theirs, keep_open)
        finally:
            os.close(theirs)
        return cls(process, reading)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        """Wait until the process and what it left in its group are gone; its exit status (-N: signal N)."""
        status = await self._process.wait()
        await self._clear_group()
        with suppress(TimeoutError):  # somebody outside the group holds the pipe: its words are nobody's
            await asyncio.wait_for(self._reading, timeout=1)
        return status

    def terminate(self) -> None:
        """Ask the process itself to end; it knows its own children."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole group at once."""
        self._signal_group(signal.SIGKILL)

    async def stop(self, grace: float) -> bool:
        """Ask, wait up to `grace` seconds, then kill. True if it ended by itself."""
        self.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), grace)
        except TimeoutError:
            self.kill()
            await self._process.wait()
            return False
        return True

    async def _clear_group(self) -> None:
        for _ in range(int(_LEFTOVERS_SECONDS / _POLL_SECONDS)):
            if not self._signal_group(0):
                return
            await asyncio.sleep(_POLL_SECONDS)
        self.kill()

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True


async def _exec(
    argv: Sequence[str], environment: Mapping[str, str], output: int, keep_open: Sequence[int]
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        # -I keeps this folder off the import path, -S saves the start of site-packages.
        *(sys.executable, "-I", "-S", str(_BOUND), str(os.getpid()), *argv),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=dict(environment),
        process_group=0,
        pass_fds=tuple(keep_open),
    )


async def _read(descriptor: int, hear: Callable[[str], None]) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    lines = LineSplitter()
    try:
        while chunk := await reader.read(_CHUNK):
            for line in lines.feed(chunk):
                hear(line)
        for line in lines.finish():
            hear(line)
    finally:
        transport.close()
