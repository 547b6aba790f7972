"""What the server will say: the whole answer is known before its first token."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from model_pool.servers.paced import directives as blocks
from model_pool.servers.paced.detokenizer import Detokenizer
from model_pool.servers.paced.directives import Directives
from model_pool.servers.paced.vocabulary import BYTES

if TYPE_CHECKING:
    from model_pool.servers.paced.chat import Conversation
    from model_pool.servers.paced.vocabulary import Vocabulary

_MULTI_BYTE = "žluťoučký kůň · ภาษาไทย · 驿站换马 · 👩‍👩‍👧 🐎"
_COUNTED = 16
_SPACE = 32


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool; at least one token, of its arguments."""

    name: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """The tokens still to be sent, how they are paced, and where they break off.

    `begun` is the part that somebody has sent before. `token_ids` are the text's. `breaks_at` counts from the first of
    all tokens; None: nowhere, which is so for every continued answer, as are reasoning and calls.
    """

    directives: Directives
    begun: tuple[int, ...]
    token_ids: tuple[int, ...]
    breaks_at: int | None
    reasoning: tuple[int, ...] = ()
    calls: tuple[ToolCall, ...] = ()

    @property
    def whole(self) -> tuple[int, ...]:
        """All tokens: the reasoning's, the text's, the calls'."""
        return (*self.reasoning, *self.token_ids, *(i for call in self.calls for i in call.token_ids))

    @property
    def crashes(self) -> bool:
        """Whether the process ends where the answer breaks off, and not only the stream."""
        return self.breaks_at is not None and self.breaks_at == self.directives.crash_at


def plan(conversation: Conversation, vocabulary: Vocabulary, *, fill: int | None = None) -> Answer:
    """The answer to a conversation, from where it has been left.

    Args:
        conversation: the last user message, and the ids of the answer begun so far.
        vocabulary: the shared table of words.
        fill: repeat or cut the answer to so many tokens in all, as a model does that may not stop.

    Raises:
        Refused: the message holds an unknown directive (400).
    """
    echo, found = blocks.split(conversation.question)
    said = found or Directives()
    if conversation.told is not None:
        echo, said = conversation.told, dataclasses.replace(said, reasoning="", calls=())
    found = said if found is not None else None
    length = fill if fill is not None else said.tokens
    whole = [] if said.empty else _fit(_tokens(echo, found, vocabulary, length), length, vocabulary)
    rest = tuple(_after(conversation.begun, whole, vocabulary))
    if conversation.begun:
        return Answer(said, conversation.begun, rest, None)
    calls = tuple(ToolCall(c.name, tuple(vocabulary.encode(c.arguments or "{}"))) for c in said.calls)
    answer = Answer(said, (), rest, said.breaks_at, tuple(vocabulary.encode(said.reasoning)), calls)
    breaks = said.breaks_at is not None and said.breaks_at < len(answer.whole)
    return answer if breaks else dataclasses.replace(answer, breaks_at=None)


def _tokens(echo: str, found: Directives | None, vocabulary: Vocabulary, length: int | None) -> list[int]:
    said = found or Directives()
    text = echo if said.text is None else said.text
    if (
        not text and found is not None and said.text is None and not said.calls
    ):  # nothing but directives: count, so that a gap shows
        text = _MULTI_BYTE if said.bytes else _counting(length or max(_COUNTED, 2 * (said.breaks_at or 0)))
    return list(text.encode("utf-8", "replace")) if said.bytes else vocabulary.encode(text)


def _counting(length: int) -> str:
    return " ".join(map(str, range(1, length + 1)))


def _fit(tokens: list[int], length: int | None, vocabulary: Vocabulary) -> list[int]:
    """Cut to `length`, or repeat with a space between the rounds."""
    if length is None or len(tokens) >= length or not tokens:
        return tokens if length is None else tokens[:length]
    first = tokens[0]
    joint = [_SPACE, first] if first < BYTES else vocabulary.encode(" " + vocabulary.word(first))
    again = [*joint, *tokens[1:]]
    return [*tokens, *again * (length // len(again) + 1)][:length]


def _after(begun: tuple[int, ...], whole: list[int], vocabulary: Vocabulary) -> list[int]:
    """What is left of the whole answer after the part begun: by ids where they agree, else by text, else by number."""
    if tuple(whole[: len(begun)]) == begun:
        return whole[len(begun) :]
    text = Detokenizer(vocabulary).text(begun)
    decoder = Detokenizer(vocabulary)
    pieces = [decoder.step(token_id) for token_id in whole]
    if not "".join(pieces).startswith(text):
        return whole[len(begun) :]
    ends = list(accumulate(map(len, pieces)))
    place = bisect_left(ends, len(text))  # the token in which the text ends
    left = pieces[place][len(pieces[place]) - (ends[place] - len(text)) :] if place < len(ends) else ""
    return [*vocabulary.encode(left), *whole[place + 1 :]] if left else whole[place + 1 :]
