"""The record of a slot: which processes its last keeper ran, so that a starting worker can end what was left over.

A keeper ends its group whenever the worker goes. Only if the keeper itself was killed is anything left; then the
record says what to look for, in a way that no process with a reused number can match. Standard library only.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from model_pool import procfs

if TYPE_CHECKING:
    from pathlib import Path

MARK = "MODEL_POOL_SLOT"
_LIMIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """One start of a slot's server.

    Attributes:
        pgid: process group, which is also the pid of the server.
        started: the server's start in clock ticks after boot.
        boot: `boot_id` of the machine's start that `started` counts from.
        mark: value of the variable `MARK` that the server and its children have in their environment.
    """

    pgid: int
    started: int
    boot: str
    mark: str


def write(path: Path, record: SlotRecord) -> None:
    """Put the record in place in one step: a reader sees the old one or the new one."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(json.dumps(asdict(record)))
    fresh.replace(path)


def read(path: Path) -> SlotRecord | None:
    """The slot's record; None if there is none, or none that this version understands."""
    try:
        return SlotRecord(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        return None


def end_recorded(path: Path, limit: float = _LIMIT_SECONDS) -> list[int]:
    """SIGKILL whatever is left of the start that the slot recorded. Blocks, `limit` seconds at the most.

    Returns:
        The pids that were ended; empty when nothing was left, or when the recorded number is another process now.
    """
    record = read(path)
    if record is None or record.boot != procfs.boot_id():
        return []
    # Asked once: the leader may die first, and as long as a group has members its number is not given to another.
    with_group = _leads(record)
    return procfs.end_all(lambda: _left_over(record, with_group=with_group), limit)


def _leads(record: SlotRecord) -> bool:
    leader = procfs.look_up(record.pgid)
    return leader is not None and leader.started == record.started


def _left_over(record: SlotRecord, *, with_group: bool) -> list[procfs.Process]:
    marked = f"{MARK}={record.mark}"
    return [
        process
        for process in procfs.everyone()
        if (with_group and record.pgid in (process.group, process.session)) or procfs.carries(process.pid, marked)
    ]
