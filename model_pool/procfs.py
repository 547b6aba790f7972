"""Finding and ending processes through `/proc`, by what cannot be mistaken: a number of a process alone may be reused.

Only the standard library, because the keeper imports it and must start fast.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PROC = Path("/proc")
_LOOK_AGAIN_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """One line of `/proc/PID/stat` (proc(5)).

    Attributes:
        started: clock ticks after boot; with `pid` it names one process and no later one.
        session: sessions and groups are named after the process that led them first.
    """

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int

    @property
    def ended(self) -> bool:
        """Whether only its entry is left, for its parent to read the exit status; it holds nothing any more."""
        return self.state in "ZX"


def look_up(pid: int) -> Process | None:
    """The process `pid`, also when it has ended and nobody has asked for its status yet; None if there is none."""
    try:
        line = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in parentheses and may itself contain spaces and parentheses.
    fields = line[line.rindex(")") + 2 :].split()
    parent, group, session = (int(number) for number in fields[1:4])
    return Process(pid, fields[0], parent, group, session, int(fields[19]))


def everyone() -> Iterator[Process]:
    """Every living process that this one can see."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (process := look_up(int(entry.name))) is not None and not process.ended:
            yield process


def descendants(pid: int) -> list[Process]:
    """Children of `pid`, their children, and so on. For a subreaper that is all it ever started, daemons too."""
    children: dict[int, list[Process]] = {}
    for process in everyone():
        children.setdefault(process.parent, []).append(process)
    found, rest = [], [pid]
    while rest:
        born = children.get(rest.pop(), [])
        found += born
        rest += [process.pid for process in born]
    return found


def carries(pid: int, variable: str) -> bool:
    """Whether the process was started with `NAME=value` in its environment."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        # Another user's process, or one that has just ended: neither is ours to end.
        return False
    return os.fsencode(variable) in environment.split(b"\0")


def command_line(pid: int) -> bytes:
    """What the process was started as, its words joined by NUL; empty when it has ended."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def boot_id() -> str:
    """A name of the time since the machine's start: ticks and process numbers begin again with the next one."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def end_all(find: Callable[[], list[Process]], limit: float) -> list[int]:
    """SIGKILL what `find` finds, again and again, until it finds nothing: what a dying process forks dies too.

    Args:
        find: looks afresh at each call.
        limit: seconds; a process in an uninterruptible call of the kernel may outlive any signal.

    Returns:
        The pids that were sent the signal.
    """
    sent: set[int] = set()
    until = time.monotonic() + limit
    while (found := find()) and time.monotonic() < until:
        for process in found:
            sent.add(process.pid)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN_SECONDS)
    return sorted(sent)
