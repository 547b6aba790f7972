"""A real model's tokenizer: its `tokenizer.json`, its chat template, and text that comes out token by token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tokenizers import Tokenizer as Tokens
from tokenizers.decoders import DecodeStream

from model_pool.servers.face import messages
from model_pool.servers.face.chat_template import ChatTemplate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Enough of what came before for a decoder that looks back (spaces, halves of characters).
_LOOK_BACK = 8


class ModelTokenizer:
    """The face's tokenizer of one model."""

    def __init__(self, tokens: Tokens, template: ChatTemplate) -> None:
        self._tokens = tokens
        self._template = template

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Read `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja` of a Hugging Face folder."""
        config = json.loads((folder / "tokenizer_config.json").read_text())
        file = folder / "chat_template.jinja"
        source = file.read_text() if file.is_file() else config.get("chat_template") or ""
        return cls(Tokens.from_file(str(folder / "tokenizer.json")), ChatTemplate(source, special_tokens(config)))

    @property
    def size(self) -> int:
        """Ids are below this."""
        return int(self._tokens.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        return list(self._tokens.encode(text).ids)

    def render(self, sent: Any, *, generation_prompt: bool, continue_final: bool) -> list[int]:
        told = messages.checked(sent, generation_prompt=generation_prompt, continue_final=continue_final)
        text = self._template.render(told, generation_prompt=generation_prompt, continue_final=continue_final)
        # The template has written the special tokens itself.
        return list(self._tokens.encode(text, add_special_tokens=False).ids)

    def strings(self, token_ids: Sequence[int]) -> list[str]:
        return [self._tokens.decode([token_id], skip_special_tokens=False) for token_id in token_ids]

    def decoder(self, prompt_ids: Sequence[int]) -> ModelDecoder:
        """A decoder of what follows the prompt."""
        return ModelDecoder(self._tokens, prompt_ids)


class ModelDecoder:
    """Text of tokens as they come; special tokens have none."""

    def __init__(self, tokens: Tokens, prompt_ids: Sequence[int]) -> None:
        self._tokens = tokens
        self._stream = DecodeStream(list(prompt_ids[-_LOOK_BACK:]), skip_special_tokens=True)

    def step(self, token_id: int) -> str:
        try:
            return self._stream.step(self._tokens, token_id) or ""
        except Exception:  # noqa: BLE001 -- tokenizers raises nothing narrower
            # "Invalid prefix": bytes that no character begins with; vLLM begins afresh there as well.
            self._stream = DecodeStream(skip_special_tokens=True)
            return self._stream.step(self._tokens, token_id) or ""


def special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The named special tokens of a parsed `tokenizer_config.json`, as a chat template gets them."""
    named = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}
