"""The sandbox of a model's chat template, set up as transformers sets it up (`utils/chat_template_utils.py`, 5.19).

A template is code that came with the weights. Whoever counts a prompt and whoever serves it must render it alike, so
both take their environment from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


def environment(refuse: Callable[[str], NoReturn]) -> ImmutableSandboxedEnvironment:
    """A fresh environment; `refuse` is what a template's `raise_exception` calls."""
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = _strftime_now
    return made


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


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005 -- as transformers: the host's own time
