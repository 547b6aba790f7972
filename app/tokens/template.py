"""A model's chat template, rendered as transformers renders it (`transformers/utils/chat_template_utils.py`, 5.19).

A template is code that came with the weights, so it runs in Jinja's sandbox. Importing transformers for it would cost
an API process half a gigabyte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class TemplateRefusal(Exception):
    """The template itself says that it cannot render such a conversation; the message is the template's."""


class TemplateUnusable(Exception):
    """The template cannot be compiled, or failed on this conversation."""


class _Generation(Extension):
    """`{% generation %}` marks what the assistant wrote, for training; here its content is all that matters."""

    tags = {"generation"}  # noqa: RUF012 -- Jinja's own way

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(  # the built-in filter escapes HTML, which models were not trained on
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise TemplateRefusal(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005 -- as transformers: the host's own time


def _environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _raise
    made.globals["strftime_now"] = _strftime_now
    return made


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
            self._template = _environment().from_string(source)
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
