"""A model's chat template, rendered as transformers renders it (`transformers/utils/chat_template_utils.py`, 5.19).

A template is code that came with the weights, so it runs in Jinja's sandbox. Importing transformers for it would cost
an API process half a gigabyte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError

from model_pool.templating import environment


class TemplateRefusal(Exception):
    """The template itself says that it cannot render such a conversation; the message is the template's."""


class TemplateUnusable(Exception):
    """The template cannot be compiled, or failed on this conversation."""


def _raise(message: str) -> NoReturn:
    raise TemplateRefusal(message)


class ChatTemplate:
    """A compiled template.

    Args:
        source: Jinja source.
        special_tokens: `bos_token` and the like, which templates use by name.

    Raises:
        TemplateUnusable: it cannot be compiled.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self._special = dict(special_tokens)
        try:
            self._template = environment(_raise).from_string(source)
        except TemplateSyntaxError as error:
            raise TemplateUnusable(f"line {error.lineno}: {error.message}") from None

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, **more: Any
    ) -> str:
        """The prompt's text, up to where the assistant begins.

        Raises:
            TemplateRefusal, TemplateUnusable: see there.
        """
        given = {**self._special, **more, "messages": list(messages), "tools": list(tools) if tools else None}
        try:
            return self._template.render(**given, documents=None, add_generation_prompt=True)
        except TemplateRefusal:
            raise
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError, ArithmeticError) as error:
            # The message may hold the conversation.
            raise TemplateUnusable(type(error).__name__) from None
