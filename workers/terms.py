"""What running generations is agreed on: the instance as it is used, the limits, the counts, the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from workers.trust import Suspect


class Horse(Suspect, Protocol):
    """The instance as inference uses it; `model_pool.instance.Instance` is one."""

    def token_seen(self) -> None: ...
    def replace(self, reason: str) -> None: ...


@dataclass(frozen=True)
class Limits:
    """Seconds, the number of the last attempt, tokens of prompt and answer together, and errors.

    `server_errors`: so many in a row, of different generations, get the engine replaced. `rest`: so long a flowing
    stream is left alone after each read.
    """

    longest_run: float
    first_token: float
    between_tokens: float
    max_attempts: int
    context_length: int
    server_errors: int = 5
    rest: float = 0.0


@dataclass
class Counts:
    """What this process has done since it started."""

    started: int = 0
    finished: int = 0
    aborted: int = 0
    tokens: int = 0


Report = dict[str, Any]
