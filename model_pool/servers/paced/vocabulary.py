"""The tokenizer: a token is a word with the space before it, its id the line of a shared table.

All paced servers of one data folder share the table, so that an answer that one of them began can be continued by
another from its token ids. The table is append-only: an id never changes its meaning. Ids 0 to 255 are bytes, as in
the byte fallback of real tokenizers; 256 to 999 are kept for special tokens; words begin at 1000. A table that is
full learns nothing more: further words are spelled in bytes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

BYTES = 256
FIRST_WORD = 1000
MAX_WORDS = 1_000_000
# Lossless: every character is in exactly one piece. Pieces are bounded, so that no line of the table is long.
_PIECE = re.compile(r"\s{0,64}\S{1,64}|\s{1,64}")


def pieces(text: str) -> int:
    """How many words a text has, each of which is a token as long as the table is not full."""
    return sum(1 for _ in _PIECE.finditer(text))


class UnknownTokenError(Exception):
    """The id stands for nothing in the table; carries the id."""

    def __init__(self, token_id: int) -> None:
        super().__init__(f"Token id {token_id} is out of vocabulary")
        self.token_id = token_id


class Vocabulary:
    """The table in memory, read from and appended to its file under a lock.

    Args:
        path: the file, one JSON string per line; made when it is missing.
        max_words: how many words the table may hold.
    """

    def __init__(self, path: Path, *, max_words: int = MAX_WORDS) -> None:
        self._path = path
        self._max_words = max_words
        self._words: list[str] = []
        self._ids: dict[str, int] = {}
        self._offset = 0

    def encode(self, text: str) -> list[int]:
        """The token ids of `text`; `"".join(word(i) ...)` gives it back. Learns the words that are new."""
        pieces = _PIECE.findall(text)
        try:
            return [self._ids[piece] for piece in pieces]
        except KeyError:
            self._learn(pieces)
        return [token_id for piece in pieces for token_id in self._spell(piece)]

    def word(self, token_id: int) -> str:
        """The text of a word's id; "" for a special token.

        Raises:
            UnknownTokenError: no paced server of this folder has given out the id.
        """
        if token_id < FIRST_WORD:
            return ""
        if token_id - FIRST_WORD >= len(self._words):
            self._learn(())
        try:
            return self._words[token_id - FIRST_WORD]
        except IndexError:
            raise UnknownTokenError(token_id) from None

    def _spell(self, piece: str) -> Iterable[int]:
        known = self._ids.get(piece)
        return (known,) if known is not None else piece.encode("utf-8", "replace")

    def _learn(self, pieces: Iterable[str]) -> None:
        with self._locked() as table:
            self._read_on(table)
            room = self._max_words - len(self._words)
            new = [piece for piece in dict.fromkeys(pieces) if piece not in self._ids][:room]
            if new:
                data = "".join(json.dumps(piece) + "\n" for piece in new).encode()
                self._offset += os.write(table, data)
                self._remember(new)

    def _read_on(self, table: int) -> None:
        size = os.fstat(table).st_size
        if size == self._offset:
            return
        data = os.pread(table, size - self._offset, self._offset)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # a process was killed while it wrote: nobody has seen the id of that half line
            os.ftruncate(table, self._offset + whole)
        self._offset += whole
        self._remember(json.loads(line) for line in data[:whole].splitlines())

    def _remember(self, words: Iterable[str]) -> None:
        for word in words:
            self._ids[word] = FIRST_WORD + len(self._words)
            self._words.append(word)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        table = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(table, fcntl.LOCK_EX)
            yield table
        finally:
            os.close(table)
