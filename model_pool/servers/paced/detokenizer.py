"""From token ids to text: words as they are, bytes once their character is whole."""

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
