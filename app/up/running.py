"""Where a running `posthouse up` is found: its process and its configuration file, noted in the data folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from model_pool import procfs

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "up.json"


@dataclass(frozen=True)
class Running:
    """One supervisor.

    Attributes:
        pid: its process.
        started: the process's start in clock ticks after boot, which no other process with this number has.
        boot: `boot_id` of the machine's start that `started` counts from.
        config: the file that it reads; where there was none, the one that it would find.
        engine: of every model, whatever the file says; empty where its command line names none.
    """

    pid: int
    started: int
    boot: str
    config: str
    engine: str = ""


def note(folder: Path, config: Path, engine: str) -> None:
    """Say that this process runs the stack of this data folder, and takes signals from now on."""
    myself = procfs.look_up(os.getpid())
    found = Running(os.getpid(), myself.started if myself else 0, procfs.boot_id(), str(config), engine)
    fresh = folder / f"{_FILE}.new"
    fresh.write_text(json.dumps(asdict(found)))
    fresh.replace(folder / _FILE)


def find(folder: Path) -> Running | None:
    """The supervisor that runs the stack of this data folder; None when none does."""
    try:
        found = Running(**json.loads((folder / _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    process = procfs.look_up(found.pid)
    alive = process is not None and not process.ended and process.started == found.started
    same_boot = found.boot == procfs.boot_id()
    return found if alive and same_boot else None
