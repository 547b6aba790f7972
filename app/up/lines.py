"""Turns the bytes that a process prints into whole lines, bounded."""

from __future__ import annotations

LONGEST = 16_384


class LineSplitter:
    """Feed it chunks as they arrive, get the lines that are complete; a line beyond the limit is cut in pieces.

    A carriage return ends a line too: progress bars redraw theirs with it.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        *whole, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        while len(self._rest) > self._longest:
            whole.append(self._rest[: self._longest])
            self._rest = self._rest[self._longest :]
        return [_text(line) for line in whole if line]

    def finish(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []


def _text(line: bytes) -> str:
    return line.decode(errors="replace")
