"""What the face asks of a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tokenizer(Protocol):
    """Text and messages to token ids."""

    def encode(self, text: str) -> list[int]:
        """The ids of plain text."""
        ...

    def render(self, messages: Any, *, generation_prompt: bool, continue_final: bool) -> list[int]:
        """The prompt's ids by the model's chat template; `messages` is whatever the client sent.

        Raises:
            Refused: the messages are missing, empty or malformed (400).
        """
        ...

    def strings(self, token_ids: Sequence[int]) -> list[str]:
        """The text of each token by itself."""
        ...


class Decoder(Protocol):
    """Token ids to text, one answer long."""

    def step(self, token_id: int) -> str:
        """The text that this token completes; half a character waits for its other half."""
        ...
