"""What the supervisor keeps running: a role is one process with a name, a command and a place in the order of ends."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

PROGRAM = "posthouse"


class Stage(IntEnum):
    """The order in which roles are stopped: whoever needs another role ends before it."""

    API = 0
    GPU = 1
    WEBHOOKS = 2
    FLOWER = 3
    REDIS = 4


@dataclass(frozen=True)
class Role:
    """One supervised process.

    Attributes:
        name: stands before each of its log lines, such as `gpu.demo.0`.
        command: the command line; `posthouse …` is what an operator would type, and what docker-compose.yml runs.
        stage: when it is stopped.
        grace: seconds from SIGTERM to SIGKILL.
        vital: whether requests are served only with it; the stack gives up on a start without a vital role.
        variables: what it gets in its environment, beside what all get.
    """

    name: str
    command: tuple[str, ...]
    stage: Stage
    grace: float
    vital: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command with `posthouse` resolved to this very installation, whatever PATH says."""
        program, *arguments = self.command
        return (sys.executable, "-m", "app.cli", *arguments) if program == PROGRAM else self.command
