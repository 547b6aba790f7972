"""From an engine's chunks to text that may be shown: stop strings held back and cut, half characters waited for.

The engine is asked to leave stop strings in its text, so that text and token ids stay in step; holding back, matching
and trimming happen here, alike for fresh and continued answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Piece:
    """Text that may be shown, the token ids that it came from, and their log-probabilities where asked for."""

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[Mapping[str, Any], ...] = ()


class Assembler:
    """Collects chunks and releases what can no longer become part of a stop string.

    A token whose text has not come out yet (half a character) waits for the token that completes it, so released
    text and released ids always belong together.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = tuple(stop)
        self._held: list[Piece] = []
        self.stopped = False

    def feed(
        self, text: str, token_ids: Iterable[int] = (), logprobs: Iterable[Mapping[str, Any]] = ()
    ) -> Piece | None:
        """Take one chunk; what may be shown now, or None. After a stop string was met nothing more is taken."""
        if self.stopped:
            return None
        if text and not self._stop and not self._held:
            return Piece(text, tuple(token_ids), tuple(logprobs))
        self._held.append(Piece(text, tuple(token_ids), tuple(logprobs)))
        waiting = "".join(piece.text for piece in self._held)
        end = self._first_stop(waiting)
        if end is not None:
            self.stopped = True
            return self._cut(end)
        return self._release(len(waiting) - self._risk(waiting))

    def finish(self) -> Piece | None:
        """The engine has ended: everything that is held is shown."""
        rest, self._held = self._held, []
        return None if self.stopped else _joined(rest)

    def _first_stop(self, text: str) -> int | None:
        """Where the stop string begins that is complete first, which no split into chunks can change."""
        found = [(at + len(s), at) for s in self._stop if (at := text.find(s)) >= 0]
        return min(found)[1] if found else None

    def _risk(self, text: str) -> int:
        """Length of the longest end of `text` that a stop string begins with."""
        longest = max((len(s) for s in self._stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(s.startswith(text[-length:]) for s in self._stop):
                return length
        return 0

    def _release(self, safe: int) -> Piece | None:
        """Release the held chunks that lie whole within the first `safe` characters and end with visible text."""
        length = 0
        count = 0
        for index, piece in enumerate(self._held):
            length += len(piece.text)
            if length > safe:
                break
            if piece.text:
                count = index + 1
        ready, self._held = self._held[:count], self._held[count:]
        return _joined(ready)

    def _cut(self, end: int) -> Piece | None:
        held, self._held = self._held, []
        ids = tuple(i for piece in held for i in piece.token_ids)
        text = "".join(piece.text for piece in held)[:end]
        return Piece(text, ids, tuple(_before(held, end))) if text else None


def _joined(pieces: Sequence[Piece]) -> Piece | None:
    text = "".join(piece.text for piece in pieces)
    if not text:
        return None
    ids = tuple(i for piece in pieces for i in piece.token_ids)
    return Piece(text, ids, tuple(entry for piece in pieces for entry in piece.logprobs))


def _before(pieces: Sequence[Piece], end: int) -> Iterator[Mapping[str, Any]]:
    """Log-probabilities of the tokens that begin within the first `end` characters."""
    place = 0
    for piece in pieces:
        if place < end:
            yield from piece.logprobs
        place += len(piece.text)
