"""The gate that a quantised model passes before anybody may serve it.

Perplexity on held-out text against the unquantised model within a bound, finite logits, and answers to fixed prompts
that are not one repeated character (broken weights show up as endless exclamation marks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from model_pool.quantize.errors import QualityError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from model_pool.quantize.recipe import QualityBounds

PROMPTS: Final = ("What is the capital of France?", "Where is my order?", "Name three colours.")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of one model.

    Attributes:
        perplexity: over all tokens of the held-out texts; not finite if any logit was not.
        answers: greedy answers to the fixed prompts, special tokens left out.
    """

    perplexity: float
    answers: tuple[str, ...]


def measure(model: Any, tokenizer: Any, held_out: Iterable[str], bounds: QualityBounds) -> Measurement:
    """Run a `transformers` model over the held-out texts and the fixed prompts. A few seconds for the demo model."""
    import torch  # noqa: PLC0415  (only the process that builds pays for it)

    with torch.inference_mode():
        losses = [_losses(model, tokenizer(text, return_tensors="pt")["input_ids"]) for text in held_out]
        answers = tuple(_answer(model, tokenizer, prompt, bounds.answer_tokens) for prompt in PROMPTS)
    return Measurement(float(torch.cat(losses).mean().exp()), answers)


def _losses(model: Any, ids: Any) -> Any:
    """Cross entropy in nats of each token after the first; ids: [1, n], result: [n - 1]."""
    from torch.nn.functional import cross_entropy  # noqa: PLC0415  (as above)

    logits = model(input_ids=ids).logits.float()
    # A logit that is no number may not touch any of the targets, so the sum of all of them joins each loss.
    return cross_entropy(logits[0, :-1], ids[0, 1:], reduction="none") + logits.sum() * 0


def _answer(model: Any, tokenizer: Any, prompt: str, tokens: int) -> str:
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    ids = model.generate(**inputs, max_new_tokens=tokens, do_sample=False)[0]
    return str(tokenizer.decode(ids[inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def check(base: Measurement, quantised: Measurement, bounds: QualityBounds) -> None:
    """Compare the quantised model with the one that it was made from.

    Raises:
        QualityError: with the numbers, or with the answer that shows the fault.
    """
    if not math.isfinite(quantised.perplexity):
        raise QualityError("the quantised model gives logits that are not finite numbers")
    worst = base.perplexity * bounds.perplexity_ratio
    if quantised.perplexity > worst:
        raise QualityError(
            f"perplexity on held-out text is {quantised.perplexity:.2f}; the unquantised model has "
            f"{base.perplexity:.2f}, and at most {worst:.2f} is accepted"
        )
    for prompt, answer in zip(PROMPTS, quantised.answers, strict=True):
        if is_degenerate(answer):
            raise QualityError(f"the answer to {prompt!r} is one repeated character or nothing: {answer[:20]!r}")


def is_degenerate(answer: str) -> bool:
    """Whether an answer is empty or repeats one character."""
    return len(set("".join(answer.split()))) <= 1
