"""One stack per data folder: two Redis servers on one append-only file would ruin it."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "lock"
_POLL_SECONDS = 0.05


class FolderInUseError(Exception):
    """Another stack runs with this data folder."""


def lock_folder(folder: Path, *, patience: float = 5.0) -> int:
    """Take the folder's lock and return its descriptor.

    The roles inherit the descriptor, so that the lock is free only when the last of them is gone: after a supervisor
    was killed, the next one waits for its roles to be gone too.

    Args:
        folder: an existing data folder.
        patience: seconds to wait for the processes of a stack that is just ending.

    Raises:
        FolderInUseError: somebody holds the lock for longer.
    """
    descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + patience
    while not _try(descriptor):
        if time.monotonic() > give_up:
            owner = os.pread(descriptor, 32, 0).decode().strip()
            os.close(descriptor)
            raise FolderInUseError(
                f"{folder} is in use by another `posthouse up` (process {owner}); stop it or give another --data"
            )
        time.sleep(_POLL_SECONDS)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
