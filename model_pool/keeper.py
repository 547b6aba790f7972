r"""Keeps one engine server: it lives no longer than its worker, and leaves nothing behind when it ends.

    python -m model_pool.keeper --parent-fd N --record FILE [--grace SECONDS] -- COMMAND…

Started by the worker with one end of a socket pair as fd N. The keeper runs COMMAND in a session of its own, notes it
in the slot record, says `PID\n` on the pair, and waits for whatever comes first:

- the pair's end: the worker is gone, however it went (a killed process closes its files too);
- a line `SECONDS\n` on the pair: the worker wants the server ended, with that much time between SIGTERM and SIGKILL;
- SIGTERM to the keeper itself: the same, with `--grace`;
- the command's own end.

Then everything that the command ever started is ended, also what left its process group: the keeper is the subreaper
of them all (prctl(2), PR_SET_CHILD_SUBREAPER), so their orphans become its children. It exits with the command's
status, 128 + N for a command that signal N ended. PR_SET_PDEATHSIG alone does not reach grandchildren; here it only
covers the keeper's own sudden death. Standard library only, so that it starts within milliseconds.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import select
import signal
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from model_pool import procfs, slots

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_KILL_LIMIT_SECONDS = 5.0
_TICK_SECONDS = 1.0
_NOT_STARTED = 127
_GO = b"+"
_TRACKER = b"multiprocessing.resource_tracker"
_libc = ctypes.CDLL(None, use_errno=True)


class Keeper:
    """One run: start, wait, end everything."""

    def __init__(self, command: list[str], record: Path, parent_fd: int, grace: float) -> None:
        self._command = command
        self._record = record
        self._parent_fd = parent_fd
        self._grace = grace
        self._parent = os.getppid()
        self._child = 0
        self._status: int | None = None
        self._ended_at = 0.0
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._asked_to_end = False
        self._parent_gone = False

    def run(self) -> int:
        """Keep the command until it ends or has to end; returns its exit status."""
        self._listen_to_signals()
        _prctl(_SET_CHILD_SUBREAPER, 1)
        self._start()
        grace = self._wait()
        self._end(grace)
        return 0 if self._status is None else self._status

    def _listen_to_signals(self) -> None:
        # Handlers, not SIG_IGN: an ignored signal stays ignored over exec and the engine would not hear Ctrl-C either.
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask_to_end)

    def _ask_to_end(self, *_: object) -> None:
        self._asked_to_end = True

    def _start(self) -> None:
        mark = uuid.uuid4().hex
        gate, opener = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(opener)
            _become(self._command, mark, gate)
        os.close(gate)
        # The server begins only when its record stands: at no moment does one run that nobody could find.
        process = procfs.look_up(self._child)
        started = process.started if process else 0
        slots.write(self._record, slots.SlotRecord(self._child, started, procfs.boot_id(), mark))
        os.write(opener, _GO)
        os.close(opener)
        with suppress(OSError):  # the worker is gone already: the wait that follows will see it
            os.write(self._parent_fd, f"{self._child}\n".encode())

    def _wait(self) -> float:
        """Returns the seconds that the command's processes get between SIGTERM and SIGKILL."""
        poll = select.poll()
        poll.register(self._parent_fd, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = dict(poll.poll(_TICK_SECONDS * 1000))
            if self._wake in ready:
                _empty(self._wake)
                self._reap()
            if self._status is not None:
                return self._grace
            if self._parent_fd in ready:
                return self._order()
            # A stray child of the worker may hold a copy of the pair's other end; nothing can pose as the parent.
            if self._asked_to_end or os.getppid() != self._parent:
                return self._grace

    def _order(self) -> float:
        try:
            said = os.read(self._parent_fd, 64)
        except OSError:
            said = b""
        self._parent_gone = not said
        return float(said.split()[-1]) if said else self._grace

    def _reap(self) -> None:
        """Take the status of every child that has ended, adopted ones too."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child:
                    code = os.waitstatus_to_exitcode(ended[1])
                    self._status = code if code >= 0 else 128 - code
                    self._ended_at = time.monotonic()

    def _end(self, grace: float) -> None:
        if grace > 0:
            for process in self._remaining():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
            self._settle(grace)
        procfs.end_all(self._users_of_memory, _KILL_LIMIT_SECONDS)
        self._settle(self._grace)
        procfs.end_all(self._remaining, _KILL_LIMIT_SECONDS)

    def _settle(self, seconds: float) -> None:
        """Wait until nothing is left, `seconds` at the most; less if the worker says so or goes as well.

        What the server itself left behind gets no more than the keeper's own grace, counted from the server's end.
        """
        until = time.monotonic() + seconds
        while self._remaining() and (left := self._latest(until) - time.monotonic()) > 0:
            watched = [self._wake] if self._parent_gone else [self._wake, self._parent_fd]
            ready, _, _ = select.select(watched, [], [], min(left, _TICK_SECONDS / 10))
            if self._parent_fd in ready:
                until = min(until, time.monotonic() + self._order())
            _empty(self._wake)

    def _latest(self, until: float) -> float:
        return until if self._status is None else min(until, self._ended_at + self._grace)

    def _users_of_memory(self) -> list[procfs.Process]:
        """All but Python's resource trackers.

        They outlive the killed by a moment, remove the shared memory (hundreds of megabytes for an engine) and the
        semaphores that these could not remove any more, and end by themselves.
        """
        return [process for process in self._remaining() if _TRACKER not in procfs.command_line(process.pid)]

    def _remaining(self) -> list[procfs.Process]:
        self._reap()
        return procfs.descendants(os.getpid())


def _become(command: list[str], mark: str, gate: int) -> NoReturn:
    """In the forked child: turn into the command, once the gate opens."""
    try:
        os.setsid()
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.read(gate, 1) == _GO:
            os.execvpe(command[0], command, {**os.environ, slots.MARK: mark})  # noqa: S606 -- no shell, on purpose
    except OSError as error:
        os.write(2, f"keeper: cannot start {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _empty(fd: int) -> None:
    with suppress(BlockingIOError):
        while os.read(fd, 512):
            pass


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="model_pool.keeper", description="Run COMMAND no longer than the parent lives."
    )
    parser.add_argument("--parent-fd", type=int, required=True)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--grace", type=float, default=1.0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    os.set_inheritable(options.parent_fd, False)
    return Keeper(options.command, options.record, options.parent_fd, options.grace).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
