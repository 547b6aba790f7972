"""One streamed HTTP request on a connection of its own: raw bytes and the moments when they came, read afterwards.

The load generator shares the machine with what it measures, so nothing is parsed while the load runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Recorder(asyncio.Protocol):
    """Keeps whatever comes until the server closes the connection."""

    def __init__(self) -> None:
        self.raw = bytearray()
        self.marks: list[tuple[int, float]] = []  # bytes so far, and when (monotonic seconds)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.raw += data
        self.marks.append((len(self.raw), time.monotonic()))

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 -- the signature is the protocol's
        if not self.ended.done():
            self.ended.set_result(None)


@dataclass(frozen=True)
class Answer:
    """A finished stream of chat completion chunks.

    Attributes:
        sent: when the request was written (monotonic seconds).
        tokens: when each chunk with text came, in seconds since `sent`.
        ended: seconds until the connection was closed.
        output_tokens: as the server's usage counts them.
        text: the whole text.
    """

    sent: float
    tokens: list[float]
    ended: float
    output_tokens: int
    text: str


def answer_of(recorder: Recorder, sent: float, ended: float) -> Answer:
    """Read what was recorded.

    Raises:
        RuntimeError: the status is not 200, or the stream did not end with `[DONE]`.
    """
    raw = bytes(recorder.raw)
    head, _, _ = raw.partition(b"\r\n\r\n")
    if b" 200 " not in head[:16] or b"chunked" not in head.lower():
        raise RuntimeError(f"no stream came back: {raw[:2000].decode(errors='replace')}")
    tokens, texts, usage, done = [], [], 0, False
    for data, at in _events(raw, len(head) + 4, recorder.marks):
        if data == b"[DONE]":
            done = True
            continue
        text, counted = _read(json.loads(data))
        usage = counted or usage
        if text:
            tokens.append(at - sent)
            texts.append(text)
    if not done:
        raise RuntimeError(f"a stream broke off: …{raw[-2000:].decode(errors='replace')}")
    return Answer(sent, tokens, ended - sent, usage, "".join(texts))


def _read(event: dict[str, Any]) -> tuple[str, int]:
    text = "".join(choice["delta"].get("content") or "" for choice in event.get("choices") or ())
    return text, (event.get("usage") or {}).get("completion_tokens", 0)


def _events(raw: bytes, place: int, marks: list[tuple[int, float]]) -> Iterator[tuple[bytes, float]]:
    """The data of each server-sent event, and when its end came."""
    rest = b""
    for piece, end in _chunks(raw, place):
        blocks = (rest + piece).split(b"\n\n")
        rest = blocks.pop()
        at = marks[bisect_left(marks, (end, 0.0))][1]
        for block in blocks:
            for line in block.split(b"\n"):
                if line.startswith(b"data: "):
                    yield line[6:].rstrip(b"\r"), at


def _chunks(raw: bytes, place: int) -> Iterator[tuple[bytes, int]]:
    """The chunks of a chunked body (RFC 9112, section 7.1), and where each ends in `raw`."""
    while (line_end := raw.find(b"\r\n", place)) >= 0:
        size = int(raw[place:line_end].split(b";")[0], 16)
        end = line_end + 2 + size
        if size == 0 or end > len(raw):
            return
        yield raw[line_end + 2 : end], end
        place = end + 2
