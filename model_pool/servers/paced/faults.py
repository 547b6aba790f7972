"""The faults that take time or take the process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, NoReturn

from model_pool.servers.paced.errors import BrokenOff

if TYPE_CHECKING:
    from model_pool.servers.paced.directives import Directives


def crash() -> NoReturn:
    """End this process as a native fault would: at once, with nothing cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # not reached: a process does not survive its own SIGKILL


async def stand_still(said: Directives) -> None:
    """`{{spin}}` keeps the processor and everybody else waiting; `{{hang}}` only this request, which is never answered.

    Raises:
        BrokenOff: after a hang.
    """
    if said.spin is not None:
        end = time.monotonic() + said.spin
        while time.monotonic() < end:
            pass
    if said.hang is not None:
        await asyncio.sleep(said.hang)
        raise BrokenOff
