"""The shared table of words as the face's tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from model_pool.servers.paced import chat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model_pool.servers.paced.vocabulary import Vocabulary


class WordTokenizer:
    """Words to ids and messages to prompts."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        return self._vocabulary.encode(text)

    def render(self, messages: Any, *, generation_prompt: bool, continue_final: bool) -> list[int]:
        return chat.render(
            messages, self._vocabulary, generation_prompt=generation_prompt, continue_final=continue_final
        )

    def strings(self, token_ids: Sequence[int]) -> list[str]:
        return [self._vocabulary.word(token_id) for token_id in token_ids]
