"""`python bound.py PARENT COMMAND…`: becomes COMMAND, which the kernel ends when process PARENT ends.

A supervisor that is killed outright can stop nobody. Asking for the parent's death signal between fork and exec would
need Python code in the forked child, which is unsafe with threads; this file is started as a program of its own, asks,
and hands over with exec (the request survives it).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent: int, command: list[str]) -> None:
    """Bind this process to its parent's life and become `command`.

    Raises:
        OSError: the kernel refused, or `command` cannot be run.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 -- becoming the command is the point


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
