"""The examples of docs/api.md, made to run against a stack of the tests."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
BLOCKS: list[tuple[str, str, str]] = re.findall(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
"""Language, the client's name where it is no SDK of OpenAI's, code."""

_MODEL = re.compile(r"(?<![\w-])demo(?![\w-])")


def adapted(code: str) -> str:
    """The document's model is a reader's; here it is the stack's."""
    return _MODEL.sub("paced", code)
