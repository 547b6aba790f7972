"""From token ids to text, with stop strings, as vLLM's `v1/engine/detokenizer.py` does it."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from model_pool.servers.paced.vocabulary import BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from model_pool.servers.paced.vocabulary import Vocabulary

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """Gives a token's text once its characters are whole; half a character at the end never comes out."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._utf8 = _Utf8Decoder("replace")
        self._half = False

    def step(self, token_id: int) -> str:
        """The text that this token completes.

        Raises:
            UnknownTokenError: the id is not in the vocabulary.
        """
        if token_id < BYTES:
            self._half = True
            return self._utf8.decode(bytes((token_id,)))
        word = self._vocabulary.word(token_id)
        if self._half:
            self._half = False
            return self._utf8.decode(b"", final=True) + word
        return word

    def text(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens complete."""
        return "".join([self.step(token_id) for token_id in token_ids])


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
