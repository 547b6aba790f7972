"""The load, and what is read off it."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model_pool.exchange import EngineRequest

if TYPE_CHECKING:
    from model_pool.client import EngineClient

TOKENS = 64
_ROUNDS = 3
_LIMIT_SECONDS = 300.0
# About a hundred tokens, and no two prompts that begin alike, so that no prefix cache answers.
_STORY = (
    "{} is the number of the road. In old China a courier never waited for a tired horse: at each posthouse a stable "
    "of rested horses stood ready, the next one in turn was saddled, and the letter went on. Tell at length what the "
    "courier of this road saw on his way through the mountains, whom he met at each of the posthouses, and how the "
    "letter came to its reader at last."
)


@dataclass(frozen=True)
class Stream:
    """One answer: seconds to its first token, seconds to its end, its tokens."""

    first: float
    whole: float
    tokens: int

    @property
    def pace(self) -> float:
        """Tokens a second after the first."""
        return (self.tokens - 1) / max(self.whole - self.first, 1e-6)


@dataclass(frozen=True)
class Alone:
    """Medians over some answers, one at a time: seconds to the first token, tokens a second after it."""

    first: float
    pace: float


async def alone(client: EngineClient) -> Alone:
    """Ask one question at a time; the first, which may compile or allocate, is not counted."""
    streams = [await _stream(client, number) for number in range(_ROUNDS + 1)][1:]
    return Alone(
        statistics.median(stream.first for stream in streams), statistics.median(stream.pace for stream in streams)
    )


async def together(client: EngineClient, count: int) -> float:
    """Ask so many questions at once: tokens a second of all."""
    began = time.monotonic()
    streams = await asyncio.gather(*(_stream(client, 100 + number) for number in range(count)))
    return sum(stream.tokens for stream in streams) / (time.monotonic() - began)


async def _stream(client: EngineClient, number: int) -> Stream:
    params = {"temperature": 0, "max_tokens": TOKENS, "ignore_eos": True}
    request = EngineRequest("demo", ({"role": "user", "content": _STORY.format(number)},), params, f"measure-{number}")
    began, first, tokens = time.monotonic(), 0.0, 0
    stream = client.stream(request, first_token_timeout=_LIMIT_SECONDS, token_timeout=_LIMIT_SECONDS)
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            if chunk.is_progress and not first:
                first = time.monotonic() - began
            if chunk.usage is not None:
                tokens = chunk.usage.completion_tokens
    return Stream(first, time.monotonic() - began, tokens)
