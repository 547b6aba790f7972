"""The `{{…}}` blocks of a prompt that stage paces, answers and faults.

    {{ttft=50 tpot=10 tokens=64}}  pace in milliseconds; the echo repeated or cut to so many tokens
    {{fail=500}}                   an HTTP error of that status
    {{hang=60}}                    accepts, never answers, breaks off after so many seconds
    {{spin=60}}                    a tight CPU loop of so many seconds: the whole server stands still
    {{crash}}  {{crash_at=20}}     the server process kills itself, at once or after 20 tokens
    {{cut_at=20}}                  the stream breaks off after 20 tokens
    {{sticky}}                     this and every later call fails until the process is replaced
    {{oom}}                        an error as of a GPU without memory
    {{empty}}                      an answer without text
    {{length}}                     finishes by length
    {{bytes}}                      a token for each byte: characters are split between tokens
    {{text=…}}                     answers with this; it reaches to the end of the block or to the next `name=`,
                                   or stands in double quotes
    {{reasoning=…}}                reasons with this first, as a model behind vLLM's reasoning parser does
    {{tool=NAME args=…}}           calls this tool, its arguments in pieces; after the echo, if there is any. Once a
                                   tool has answered, its answer is echoed instead
    {{logprobs=inf}}               log-probabilities, where they are asked for, hold NaN and -Infinity

A block is not echoed. A word that is no directive is an error, so that a misspelt fault cannot pass as none.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from model_pool.servers.face.errors import Refused

# Lazy, but up to the last brace of a run: text may be JSON.
_NUMBER = re.compile(r"[\d.]+")
_BLOCK = re.compile(r"\s*\{\{(.*?)\}\}(?!\})\s*", re.DOTALL)
_NUMBERS: dict[str, type[int | float]] = {
    **dict.fromkeys(("ttft", "tpot", "hang", "spin"), float),
    **dict.fromkeys(("tokens", "fail", "crash_at", "cut_at"), int),
}
_TEXTS = ("text", "reasoning", "args")
_WORDS = {"tool": re.compile(r"[\w-]{1,64}", re.ASCII), "logprobs": re.compile("inf")}
_FLAGS = ("crash", "sticky", "oom", "empty", "length", "bytes")
_NEXT = rf"(?=\s+(?:{'|'.join((*_NUMBERS, *_TEXTS, *_WORDS))})=|\s*$)"
_DIRECTIVE = re.compile(
    rf"\s*(?:(?P<long>{'|'.join(_TEXTS)})=(?:\"(?P<quoted>[^\"]*)\"|(?P<text>.*?){_NEXT})"
    r"|(?P<name>\w+)(?:=(?P<value>[\w.-]+))?(?=\s|$))",
    re.DOTALL,
)


@dataclass(frozen=True)
class Call:
    """A tool to be called, and its arguments as JSON text."""

    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Directives:
    """What the blocks of one message ask for; None and False where they say nothing.

    `ttft` and `tpot` are milliseconds, `hang` and `spin` seconds, `tokens`, `crash_at` and `cut_at` tokens.
    """

    ttft: float | None = None
    tpot: float | None = None
    tokens: int | None = None
    fail: int | None = None
    hang: float | None = None
    spin: float | None = None
    crash_at: int | None = None
    cut_at: int | None = None
    text: str | None = None
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    logprobs: str = ""
    crash: bool = False
    sticky: bool = False
    oom: bool = False
    empty: bool = False
    length: bool = False
    bytes: bool = False

    @property
    def breaks_at(self) -> int | None:
        """The number of tokens after which the answer breaks off, in whichever way."""
        places = [place for place in (self.crash_at, self.cut_at) if place is not None]
        return min(places, default=None)


def split(message: str) -> tuple[str, Directives | None]:
    """The message without its blocks, and what they say (None without a block).

    Raises:
        Refused: a block holds something that is no directive (400).
    """
    blocks = _BLOCK.findall(message)
    if not blocks:
        return message, None
    found: dict[str, Any] = {}
    calls: list[Call] = []
    for block in blocks:
        _collect(_parse(block), found, calls)
    found["calls"] = tuple(calls)
    return _BLOCK.sub(" ", message).strip(), dataclasses.replace(Directives(), **found)


def _collect(said: list[tuple[str, Any]], found: dict[str, Any], calls: list[Call]) -> None:
    for name, value in said:
        if name == "tool":
            calls.append(Call(value))
        elif name == "args" and calls:
            calls[-1] = Call(calls[-1].name, value)
        elif name == "args":
            raise _unknown()
        else:
            found[name] = value


def _parse(block: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    place, end = 0, len(block.rstrip())
    while place < end:
        match = _DIRECTIVE.match(block, place)
        if match is None:
            raise _unknown()
        found.append(_read(match))
        place = match.end()
    return found


def _read(match: re.Match[str]) -> tuple[str, Any]:
    name, value = match["name"], match["value"]
    if name is None:
        return match["long"], match["text"] if match["quoted"] is None else match["quoted"]
    if name in _FLAGS and value is None:
        return name, True
    if name in _WORDS and value is not None and _WORDS[name].fullmatch(value):
        return name, value
    if name in _NUMBERS and value is not None and _NUMBER.fullmatch(value):
        try:
            return name, _NUMBERS[name](value)
        except ValueError:
            raise _unknown() from None
    raise _unknown()


def _unknown() -> Refused:
    known = ", ".join((*(f"{name}=N" for name in _NUMBERS), *_FLAGS, *(f"{name}=…" for name in (*_TEXTS, *_WORDS))))
    return Refused(400, f"a {{{{…}}}} block holds something else than {known}", param="messages")  # and shows no prompt
