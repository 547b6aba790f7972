"""A folder that is there as a whole or not at all, built once however many ask for it at the same time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from model_pool.quantize.errors import DiskSpaceError, FolderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOOK_SECONDS = 0.2
_MEGABYTE = 1_000_000


def check_disk_space(folder: Path, needed: int, free: Callable[[Path], int] | None = None) -> None:
    """Refuse early instead of failing in the middle of a write.

    Args:
        folder: an existing folder on the file system that is written to.
        needed: bytes.
        free: gives the free bytes of a folder's file system.

    Raises:
        DiskSpaceError: with both numbers and the place.
    """
    available = (free or _free_bytes)(folder)
    if available < needed:
        raise DiskSpaceError(
            f"{folder} has {available // _MEGABYTE} MB free, but the build needs {needed // _MEGABYTE} MB; "
            "free some space or choose another folder"
        )


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@contextmanager
def locked(folder: Path, *, wait: float, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the folder's lock, the file `<folder>.lock` beside it. The system lets go of it when a holder dies.

    Args:
        folder: need not exist; its parent must.
        wait: seconds to wait for another holder.
        on_wait: called once if there is one.

    Raises:
        FolderError: another process held the lock for all of `wait`.
    """
    path = folder.with_name(f"{folder.name}.lock")
    with path.open("w") as file:
        if not _try_lock(file.fileno()):
            on_wait()
            _lock_within(file.fileno(), time.monotonic() + wait, path)
        yield  # closing the file unlocks it; the file stays, since removing it would let two in at once


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_within(descriptor: int, until: float, path: Path) -> None:
    while not _try_lock(descriptor):
        if time.monotonic() > until:
            raise FolderError(f"another process holds {path}; wait for it, or end it and run again")
        time.sleep(_LOOK_SECONDS)


@contextmanager
def workshop(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, gone at the end. Call it under the lock: what a killed run left goes too."""
    prefix = f".{folder.name}."
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as name:
        yield Path(name)


def publish(built: Path, folder: Path) -> None:
    """Move a finished folder to its place in one step, its content on the disk first.

    Raises:
        FolderError: something is there already.
    """
    for path in (*built.rglob("*"), built):
        _sync(path)
    try:
        built.rename(folder)
    except OSError as error:
        raise FolderError(f"cannot put the finished folder at {folder}: {error.strerror}") from error
    _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
