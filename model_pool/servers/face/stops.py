"""Stop strings in growing text."""

from __future__ import annotations


class StopWatch:
    """Looks for stop strings in growing text and says what may be sent.

    Args:
        stops: the stop strings, none empty.
        include: whether the stop string itself belongs to the output. If not, as much text is held back as could
            be the beginning of one, so the text sent lags its tokens (as it does in vLLM).
    """

    def __init__(self, stops: tuple[str, ...], *, include: bool) -> None:
        self._stops = stops
        self._include = include
        self._longest = max(map(len, stops), default=1)
        self._held = 0 if include else self._longest - 1
        self._text = ""
        self._sent = 0

    def add(self, text: str) -> str | None:
        """Take more text; the stop string that it completes, or None."""
        begin = max(0, len(self._text) - self._longest + 1)
        self._text += text
        hits = [(at, stop) for stop in self._stops if (at := self._text.find(stop, begin)) >= 0]
        if not hits:
            return None
        at, stop = min(hits)
        self._text = self._text[: at + len(stop) if self._include else at]
        return stop

    def take(self, *, finished: bool) -> str:
        """The text that may be sent now and has not been."""
        end = len(self._text) if finished else max(self._sent, len(self._text) - self._held)
        text = self._text[self._sent : end]
        self._sent = end
        return text
