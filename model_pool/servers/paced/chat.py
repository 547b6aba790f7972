"""The chat template: role tokens around the messages, from which the conversation can be read back.

A prompt of token ids is thus as good as messages, and text after the last assistant token is an answer that somebody
began: the same for `continue_final_message` and for a continuation by ids on `/v1/completions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model_pool.servers.face import messages
from model_pool.servers.paced.detokenizer import Detokenizer
from model_pool.servers.paced.vocabulary import BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model_pool.servers.paced.vocabulary import Vocabulary

END = BYTES
ROLES = {role: BYTES + 1 + n for n, role in enumerate(messages.ROLES)}


@dataclass(frozen=True)
class Conversation:
    """What the server needs of a prompt.

    Attributes:
        question: the last user message.
        begun: ids of the answer begun so far.
        told: what a tool has answered since, None where none has.
    """

    question: str
    begun: tuple[int, ...]
    told: str | None = None


def render(sent: Any, vocabulary: Vocabulary, *, generation_prompt: bool, continue_final: bool) -> list[int]:
    """The prompt's token ids.

    Raises:
        Refused: the messages are missing, empty or malformed (400).
    """
    told = messages.checked(sent, generation_prompt=generation_prompt, continue_final=continue_final)
    ids = [token_id for message in told for token_id in (*_render_one(message, vocabulary), END)]
    if continue_final:
        ids.pop()
    return [*ids, ROLES["assistant"]] if generation_prompt else ids


def read_back(ids: Sequence[int], vocabulary: Vocabulary) -> Conversation:
    """The conversation of a prompt; a prompt without roles is the question itself.

    Raises:
        UnknownTokenError: an id is not in the vocabulary.
    """
    asked = _last(ids, ROLES["user"])
    if asked is None:
        return Conversation(Detokenizer(vocabulary).text(ids), ())
    question = ids[asked + 1 : _first(ids, END, asked)]
    answered = _last(ids, ROLES["assistant"])
    begun = ids[answered + 1 :] if answered is not None and answered > asked and END not in ids[answered:] else ()
    return Conversation(Detokenizer(vocabulary).text(question), tuple(begun), _told(ids[asked:], vocabulary))


def _told(ids: Sequence[int], vocabulary: Vocabulary) -> str | None:
    place = _last(ids, ROLES["tool"])
    return None if place is None else Detokenizer(vocabulary).text(ids[place + 1 : _first(ids, END, place)])


def _render_one(message: dict[str, Any], vocabulary: Vocabulary) -> list[int]:
    return [ROLES[message["role"]], *vocabulary.encode(message["content"])]


def _last(ids: Sequence[int], wanted: int) -> int | None:
    return next((n for n in range(len(ids) - 1, -1, -1) if ids[n] == wanted), None)


def _first(ids: Sequence[int], wanted: int, begin: int) -> int:
    return next((n for n in range(begin, len(ids)) if ids[n] == wanted), len(ids))
