"""A model's own chat template, rendered as transformers does it (`utils/chat_template_utils.py`), in a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import jinja2

from model_pool.servers.face.errors import Refused
from model_pool.templating import environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ChatTemplate:
    """Renders messages to a prompt's text.

    Args:
        source: the template.
        special_tokens: names such as `bos_token` to their text.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self._template = environment(_refuse).from_string(source)
        self._special_tokens = dict(special_tokens)

    def render(self, messages: Sequence[Mapping[str, Any]], *, generation_prompt: bool, continue_final: bool) -> str:
        """The prompt; with `continue_final` it ends where the last message's content ends.

        Raises:
            Refused: the template takes no such conversation, or changes the message that is to be continued (400).
        """
        try:
            text = self._template.render(
                messages=messages, add_generation_prompt=generation_prompt, **self._special_tokens
            )
        except jinja2.TemplateError as error:
            raise Refused(400, f"the model's chat template refuses these messages: {error}", param="messages") from None
        return _cut(text, messages[-1]["content"]) if continue_final else text


def _cut(text: str, begun: str) -> str:
    for part in (begun, begun.strip()):
        at = text.rfind(part)
        if part and at >= 0:
            return text[: at + len(part)]
    raise Refused(400, "the chat template does not keep the message that is to be continued", param="messages")


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
