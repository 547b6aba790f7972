"""The supervisor's own output: every line with the name of its role in front, in colour on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_OWN = "up"


class Console:
    """Prints `role | text` lines. When nobody reads any more it falls silent and the stack lives on."""

    def __init__(self, stream: TextIO, *, colour: bool | None = None) -> None:
        self._stream = stream
        self._colour = stream.isatty() if colour is None else colour
        self._width = len(_OWN)
        self._colours: dict[str, str] = {_OWN: "1"}
        self._open = True

    def expect(self, roles: Iterable[str]) -> None:
        """Make room for these names, so that all lines align from the first one on."""
        for role in roles:
            self._width = max(self._width, len(role))
            self._colours.setdefault(role, _COLOURS[(len(self._colours) - 1) % len(_COLOURS)])

    def line(self, role: str, text: str) -> None:
        prefix = f"{role:<{self._width}} |"
        if self._colour:
            prefix = f"\x1b[{self._colours.get(role, '0')}m{prefix}\x1b[0m"
        self.plain(f"{prefix} {text}")

    def say(self, text: str) -> None:
        """A line of the supervisor itself."""
        self.line(_OWN, text)

    def plain(self, text: str) -> None:
        """A line without a prefix, such as `ready URL`, for people and programs that wait for it."""
        if not self._open:
            return
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except BrokenPipeError:
            self._open = False
