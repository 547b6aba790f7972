"""Calibration rows: which of the given texts are usable, and a refusal when too few are.

GPTQ with too few, blank or repeated rows does not fail; it silently gives bad weights. So rows are counted first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from model_pool.quantize.errors import CalibrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from model_pool.quantize.recipe import CalibrationLimits
    from model_pool.quantize.texts import Chat

_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What became of the rows that were given: `given` is the sum of the others."""

    given: int
    usable: int
    blank: int
    duplicate: int
    short: int

    def __str__(self) -> str:
        return (
            f"{self.usable} of {self.given} calibration rows are usable "
            f"({self.blank} blank, {self.duplicate} duplicate, {self.short} too short)"
        )


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Token ids of the usable rows, in the order given, and the count of all."""

    rows: tuple[tuple[int, ...], ...]
    counts: RowCounts


def messages_of(chat: Chat) -> list[dict[str, str]]:
    """The chat as messages of a chat template, user and assistant in turn."""
    return [{"role": _ROLES[number % 2], "content": turn} for number, turn in enumerate(chat)]


def calibration_set(
    texts: Iterable[str], encode: Callable[[str], Sequence[int]], limits: CalibrationLimits
) -> CalibrationSet:
    """Tokenise the distinct, long enough texts.

    Args:
        texts: rendered with the model's chat template.
        encode: text to token ids, adding no special tokens of its own.
        limits: which rows count and how many must.

    Raises:
        CalibrationError: fewer usable rows than `limits.min_rows`; the message has the counts.
    """
    given = [" ".join(text.split()) and text for text in texts]
    filled = [text for text in given if text]
    distinct = list(dict.fromkeys(filled))
    encoded = (tuple(encode(text)[: limits.max_tokens]) for text in distinct)
    rows = tuple(row for row in encoded if len(row) >= limits.min_tokens)
    counts = RowCounts(
        given=len(given),
        usable=len(rows),
        blank=len(given) - len(filled),
        duplicate=len(filled) - len(distinct),
        short=len(distinct) - len(rows),
    )
    if counts.usable < limits.min_rows:
        raise CalibrationError(f"{counts}; at least {limits.min_rows} are needed: give more, and different, texts")
    return CalibrationSet(rows, counts)
