"""A measured figure, the target it is held against, and the small statistics behind it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One number of one benchmark.

    Attributes:
        at_least, at_most: the target; without either the number is only reported.
        rounds: the same number of each round; `value` is their median unless `note` says otherwise.
    """

    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    rounds: tuple[float, ...] = ()
    note: str = ""

    @property
    def judged(self) -> bool:
        return self.at_least is not None or self.at_most is not None

    @property
    def holds(self) -> bool:
        """Whether the target is met; a NaN meets none."""
        if self.at_least is not None and not self.value >= self.at_least:
            return False
        return self.at_most is None or self.value <= self.at_most

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds if self.judged else None}


@dataclass(frozen=True)
class Outcome:
    """What one benchmark found, with the conditions it was found under."""

    title: str
    figures: tuple[Figure, ...]
    conditions: dict[str, Any] = field(default_factory=dict)


def over_rounds(name: str, rounds: Sequence[float], **facts: Any) -> Figure:
    """A figure whose value is the median of its rounds."""
    return Figure(name, statistics.median(rounds), rounds=tuple(rounds), **facts)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: `share` 0.99 of 100 values is the 99th smallest."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
