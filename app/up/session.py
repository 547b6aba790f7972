"""One run of the supervisor: bring the roles up, wait for a signal, end them; a second signal ends them at once."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.up.console import Console
    from app.up.supervisor import Supervisor

ENDED_WELL = 0
FAILED = 1
KILLED = 130
RELOAD_SIGNAL = signal.SIGUSR1  # SIGHUP means that the terminal is gone
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run(
    supervisor: Supervisor,
    console: Console,
    bring_up: Callable[[], Awaitable[None]],
    expected: tuple[type[Exception], ...],
    reload: Callable[[], None] = lambda: None,
) -> int:
    """Bring the roles up and keep them until SIGINT, SIGTERM or SIGHUP; returns the exit status.

    Args:
        supervisor: keeps the roles.
        console: told what happens.
        bring_up: starts roles through the supervisor and returns when they serve.
        expected: failures of `bring_up` whose message is all that an operator needs; others are raised after the stop.
        reload: called at each RELOAD_SIGNAL.
    """
    asked = asyncio.Event()
    hard = asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            hard.set()
            console.say("asked again: ending everything at once")
            supervisor.kill()
        asked.set()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(RELOAD_SIGNAL, reload)
    try:
        status = await _until_asked(console, bring_up, asked, expected)
    finally:
        await supervisor.stop()
    return status or (KILLED if hard.is_set() else ENDED_WELL)


async def _until_asked(
    console: Console,
    bring_up: Callable[[], Awaitable[None]],
    asked: asyncio.Event,
    expected: tuple[type[Exception], ...],
) -> int:
    coming_up = asyncio.ensure_future(bring_up())
    waiting = asyncio.create_task(asked.wait())
    await asyncio.wait({coming_up, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not coming_up.done():
        coming_up.cancel()
        await asyncio.wait({coming_up})
        return ENDED_WELL
    try:
        coming_up.result()
    except expected as error:
        waiting.cancel()
        console.say(f"cannot go on: {error}")
        return FAILED
    await waiting
    return ENDED_WELL
