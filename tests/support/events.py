"""Reading event streams in tests: as the SDK gives them, and byte for byte."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frame:
    """One block of an SSE stream: either a comment, or an event; `at` is when it came (monotonic seconds)."""

    at: float
    comment: str = ""
    event: str = ""
    id: str = ""
    data: str = ""

    @property
    def body(self) -> Any:
        return json.loads(self.data)


def frames(response: http.client.HTTPResponse) -> Iterator[Frame]:
    """The frames of an open response as they come, until it ends."""
    lines: list[str] = []
    while line := response.readline():
        text = line.decode().rstrip("\r\n")
        if text.startswith(":"):  # a comment is a line of its own, without a blank one after it
            yield Frame(time.monotonic(), comment=text[1:].strip())
        elif text:
            lines.append(text)
        elif lines:
            yield _frame(lines)
            lines = []
    if lines:
        yield _frame(lines)


def named(response: http.client.HTTPResponse) -> Iterator[Frame]:
    """Only the events of an open response, without its comments."""
    return (frame for frame in frames(response) if frame.event)


def _frame(lines: list[str]) -> Frame:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return Frame(time.monotonic(), **found)


def numbers(events: Iterable[Any]) -> list[int]:
    return [event.sequence_number for event in events]


def text(events: Iterable[Any]) -> str:
    """The text of the SDK's Responses events."""
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def chat_text(chunks: Iterable[Any]) -> str:
    """The text of the SDK's chat chunks."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def counting(last: int) -> str:
    """What the paced server says when it has nothing to echo: `1 2 3 …`."""
    return " ".join(str(number) for number in range(1, last + 1))
