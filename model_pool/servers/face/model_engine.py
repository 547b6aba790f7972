"""A real model behind the face: what is checked before a start, and how tokens of a source become deltas."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from model_pool.servers.face.errors import Refused
from model_pool.servers.face.slots import Slots
from model_pool.servers.face.speaker import Delta, Speaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from model_pool.servers.face.ask import Ask
    from model_pool.servers.face.model_tokenizer import ModelTokenizer
    from model_pool.servers.face.sampling import Sampling


@dataclass(frozen=True)
class Order:
    """Tokens that a source is to make.

    Attributes:
        budget: how many at the most.
        ignore_eos: go on where the model would end.
        deliver: takes what has come since the last call, in the event loop.
    """

    prompt_ids: tuple[int, ...]
    budget: int
    sampling: Sampling
    ignore_eos: bool
    deliver: Callable[[Batch], None]


@dataclass(frozen=True)
class Batch:
    """News of an order: new tokens, whether the model has ended by itself (the last token says so), or a failure."""

    token_ids: tuple[int, ...] = ()
    ended: bool = False
    failure: str | None = None


class Source(Protocol):
    """A model that makes tokens for many orders at once. Both calls return at once."""

    def start(self, order: Order) -> None: ...

    def cancel(self, order: Order) -> None:
        """Nobody wants the order any more: free its place. Unknown and ended orders are passed over."""
        ...


class ModelEngine:
    """One model, with so many sequences at once."""

    def __init__(self, tokenizer: ModelTokenizer, source: Source, *, context_length: int, max_concurrency: int) -> None:
        self.tokenizer = tokenizer
        self.context_length = context_length
        self.slots = Slots(max_concurrency)
        self._source = source

    def plan(self, ask: Ask) -> int:
        """How many tokens the answer may have.

        Raises:
            Refused: prompt and budget exceed the context, the prompt is empty or an id is unknown.
        """
        prompt, limit = len(ask.prompt_ids), self.context_length
        if prompt + (ask.budget or 1) > limit:
            raise Refused(
                400,
                f"This model's maximum context length is {limit} tokens. However, you requested {ask.budget or 1} "
                f"output tokens and your prompt contains {prompt} input tokens. Please reduce the length of either.",
                param="input_tokens",
            )
        if not prompt:
            raise Refused(400, "the prompt has no token", param="prompt")
        if (worst := max(ask.prompt_ids)) >= self.tokenizer.size:
            raise Refused(400, f"Token id {worst} is out of vocabulary", param="prompt")
        return ask.budget or limit - prompt

    async def deltas(self, ask: Ask, plan: int) -> AsyncIterator[list[Delta]]:
        """The answer as it comes.

        Raises:
            Refused: the source has failed (500).
        """
        news: asyncio.Queue[Batch] = asyncio.Queue()
        order = Order(ask.prompt_ids, plan, ask.sampling, ask.ignore_eos, news.put_nowait)
        speaker = Speaker(ask, self.tokenizer.decoder(ask.prompt_ids), plan, "length")
        self._source.start(order)
        try:
            while True:
                deltas = _said(await news.get(), speaker)
                if deltas:
                    yield deltas
                if deltas and deltas[-1].finish_reason is not None:
                    return
        finally:
            self._source.cancel(order)


def _said(batch: Batch, speaker: Speaker) -> list[Delta]:
    if batch.failure is not None:
        raise Refused(500, batch.failure)
    if not batch.ended:
        return speaker.say(batch.token_ids)
    deltas = speaker.say(batch.token_ids[:-1])
    if deltas and deltas[-1].finish_reason is not None:
        return deltas
    return [*deltas, speaker.end(_last(batch.token_ids), "stop")]


def _last(token_ids: Sequence[int]) -> Sequence[int]:
    return token_ids[-1:]
