"""What Redis itself took long for: its slow log, with scripts by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis

from app.jobs.store import SCRIPTS as JOBS
from app.webhooks.scripts import SCRIPTS as WEBHOOKS

_NAMES = {book.sha(name): name for book in (JOBS, WEBHOOKS) for name in book}
SLOWER_THAN_US = 1000


@dataclass(frozen=True)
class Slow:
    """One command, or one script, that kept Redis for `seconds`."""

    name: str
    seconds: float


class SlowLog:
    """The slow log of one server, emptied when this is made."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        client.config_set("slowlog-log-slower-than", SLOWER_THAN_US)
        client.config_set("slowlog-max-len", 100_000)
        client.slowlog_reset()

    def entries(self) -> list[Slow]:
        """All commands that took longer than a millisecond."""
        found: list[dict[str, Any]] = self._client.slowlog_get(-1)
        return [Slow(_name(entry["command"]), entry["duration"] / 1e6) for entry in found]


def _name(command: bytes | str) -> str:
    words = (command.decode(errors="replace") if isinstance(command, bytes) else command).split(" ", 2)
    return _NAMES.get(words[1], words[1]) if words[0].upper() == "EVALSHA" else words[0].lower()
