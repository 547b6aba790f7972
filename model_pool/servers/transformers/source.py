"""Orders into transformers' continuous batching, and its news back."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import structlog
from transformers import ContinuousBatchingConfig, GenerationConfig

from model_pool.servers.face.model_engine import Batch

if TYPE_CHECKING:
    from model_pool.servers.face.model_engine import Order
    from model_pool.servers.face.sampling import Sampling
    from model_pool.servers.transformers.loading import Loaded

_log = structlog.get_logger(__name__)

_PAGE = 32
# Prompts enter the batch in pieces of so many tokens, so that running answers are not held up for long.
_CPU_BATCH_TOKENS = 256
_NO_END = -1
# Values other than the neutral ones make the manager keep a processor of each kind, which then obeys each request.
_SAMPLED = {"do_sample": True, "temperature": 0.5, "top_p": 0.5, "top_k": 10}


class BatchSource:
    """Makes tokens on the manager's own thread.

    Args:
        loaded: the model.
        max_concurrency: sequences in one batch.
        kv_tokens: tokens that the KV cache holds; None lets the manager measure the GPU's memory.
        memory_share: share of the GPU's memory that it may take then.
    """

    def __init__(
        self, loaded: Loaded, *, max_concurrency: int, kv_tokens: int | None, memory_share: float | None
    ) -> None:
        self._ends = loaded.ends
        self._vocabulary = int(loaded.model.config.get_text_config().vocab_size)
        # On a GPU, the manager measures what it can take.
        sizes: dict[str, Any] = {} if kv_tokens is None else _cpu_sizes(kv_tokens)
        config = ContinuousBatchingConfig(
            **sizes,
            max_memory_percent=memory_share,
            max_requests_per_batch=max_concurrency,
            per_request_processors=True,
            # One tenant's prompts would speed up another's, who could tell by the time.
            allow_block_sharing=False,
        )
        end: dict[str, Any] = {"eos_token_id": list(loaded.ends), "pad_token_id": loaded.ends[0]}
        generation = GenerationConfig(**_SAMPLED, **end)  # type: ignore[no-untyped-call]
        self._manager: Any = loaded.model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=config
        )
        self._numbers = count(1)
        self._names: dict[int, str] = {}

    def begin(self) -> None:
        """Start the manager's thread."""
        self._manager.start()

    def start(self, order: Order) -> None:
        name = f"order-{next(self._numbers)}"
        self._names[id(order)] = name
        news = _News(order, frozenset() if order.ignore_eos else frozenset(self._ends))
        self._manager.register_result_handler(name, news.take)
        accepted = self._manager.add_request(
            list(order.prompt_ids),
            request_id=name,
            max_new_tokens=order.budget,
            streaming=True,
            eos_token_id=_NO_END if order.ignore_eos else list(self._ends),
            **_processors(order.sampling, self._vocabulary),
        )
        if accepted is None:  # the manager's thread has ended
            _log.error("generation_thread_ended")
            order.deliver(Batch(failure="the generation thread has ended"))

    def cancel(self, order: Order) -> None:
        name = self._names.pop(id(order))
        self._manager.cancel_request(name)
        # The manager forgets a handler only with a last piece of news, which a cancelled request does not give.
        self._manager.output_router.result_handlers.pop(name, None)


def _cpu_sizes(kv_tokens: int) -> dict[str, int]:
    return {"page_size": _PAGE, "num_blocks": -(-kv_tokens // _PAGE), "max_batch_tokens": _CPU_BATCH_TOKENS}


class _News:
    """From the manager's outputs, each of which holds all tokens so far, to what is new."""

    def __init__(self, order: Order, ends: frozenset[int]) -> None:
        self._order = order
        self._ends = ends
        self._told = 0

    def take(self, output: Any) -> None:
        if output.error is not None:
            _log.warning("sequence_failed")
            self._order.deliver(Batch(failure=str(output.error)))
            return
        fresh = tuple(output.generated_tokens[self._told :])
        self._told += len(fresh)
        if fresh:
            self._order.deliver(Batch(fresh, ended=fresh[-1] in self._ends))


def _processors(sampling: Sampling, vocabulary: int) -> dict[str, float | int]:
    if sampling.greedy:
        return {"temperature": 1.0, "top_p": 1.0, "top_k": 1}
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": min(sampling.top_k or vocabulary, vocabulary),
    }
