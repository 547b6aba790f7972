"""One sequence on its generator: the prompt in pieces, then a token at each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime_genai as og

from model_pool.servers.face.model_engine import Batch

if TYPE_CHECKING:
    from collections.abc import Collection

    from model_pool.servers.face.model_engine import Order

# Others get their turn between two pieces of a long prompt.
_PIECE = 256
_SEEDS = 2**31


class Sequence:
    """Makes the tokens of one order. Belongs to the thread that steps it.

    Args:
        model: the loaded model.
        order: what is wanted.
        ends: ids of the tokens that end an answer.
    """

    def __init__(self, model: Any, order: Order, ends: Collection[int]) -> None:
        params = og.GeneratorParams(model)
        params.set_search_options(**_options(order))
        self._generator = og.Generator(model, params)
        self._ends = ends
        self._prompt = np.array(order.prompt_ids, dtype=np.int32)
        self._fed = 0
        self._left = order.budget
        self._ignore_eos = order.ignore_eos

    def step(self) -> tuple[Batch | None, bool]:
        """Take one turn: what came of it, and whether it was the last."""
        if self._fed < len(self._prompt):
            self._generator.append_tokens(self._prompt[self._fed : self._fed + _PIECE])
            self._fed += _PIECE
            if self._fed < len(self._prompt):
                return None, False
        self._generator.generate_next_token()
        token_id = int(self._generator.get_next_tokens()[0])
        self._left -= 1
        ended = token_id in self._ends and not self._ignore_eos
        return Batch((token_id,), ended), ended or self._left == 0


def _options(order: Order) -> dict[str, Any]:
    length = len(order.prompt_ids) + order.budget
    # The buffers of keys and values are as long as the longest sequence may become.
    options: dict[str, Any] = {"batch_size": 1, "max_length": length, "do_sample": not order.sampling.greedy}
    if order.ignore_eos:
        options["min_length"] = length
    sampling = order.sampling
    if sampling.repetition_penalty != 1:
        options["repetition_penalty"] = sampling.repetition_penalty
    if sampling.greedy:
        return options
    options |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
    if sampling.seed is not None:
        options["random_seed"] = sampling.seed % _SEEDS
    return options
