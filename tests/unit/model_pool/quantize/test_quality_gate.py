"""A model that is broken or clearly worse does not pass, and the reason is told."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_pool.quantize.checkpoint import dense_weights
from model_pool.quantize.errors import QualityError
from model_pool.quantize.gptq import check_losses
from model_pool.quantize.quality import PROMPTS, Measurement, check, measure
from model_pool.quantize.recipe import QualityBounds

BOUNDS = QualityBounds(perplexity_ratio=1.25)
BASE = Measurement(20.0, ("Paris.",) * len(PROMPTS))


def test_a_slightly_worse_model_passes():
    check(BASE, replace(BASE, perplexity=24.9), BOUNDS)


@pytest.mark.parametrize("perplexity", [math.nan, math.inf])
def test_logits_that_are_no_numbers_fail(perplexity: float):
    with pytest.raises(QualityError, match="not finite"):
        check(BASE, replace(BASE, perplexity=perplexity), BOUNDS)


def test_perplexity_beyond_the_bound_fails_with_both_numbers():
    with pytest.raises(QualityError, match=r"25\.10.*20\.00.*at most 25\.00"):
        check(BASE, replace(BASE, perplexity=25.1), BOUNDS)


@pytest.mark.parametrize("answer", ["!!!!!!!!!!!!!!!!", "", " \n", "! ! ! !"])
def test_one_repeated_character_or_nothing_fails(answer: str):
    answers = (*BASE.answers[1:], answer)

    with pytest.raises(QualityError, match="one repeated character or nothing"):
        check(BASE, replace(BASE, answers=answers), BOUNDS)


@pytest.mark.parametrize("loss", ["nan", "inf", "999999999", "rtn fallback"])
def test_a_module_that_was_not_really_calibrated_fails_by_name(loss: str):
    good = {"layer": 0, "module": "self_attn.q_proj", "loss": "0.0001"}

    check_losses({"gptq": [good]})
    with pytest.raises(QualityError, match=r"layer 7, mlp.down_proj"):
        check_losses({"gptq": [good, {"layer": 7, "module": "mlp.down_proj", "loss": loss}]})


def packed(torch: Any, **changes: Any) -> dict[str, Any]:
    """A matrix of 32 inputs and 8 outputs in one group of 4-bit values 0 … 15, and one plain tensor."""
    values = torch.arange(32 * 8, dtype=torch.int64).view(4, 8, 8) % 16  # [word, place in it, output]
    words = sum(values[:, place] << (4 * place) for place in range(8))
    words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    tensors = {
        "layer.qweight": words,
        "layer.qzeros": torch.full((1, 1), 0x77777777, dtype=torch.int32),
        "layer.scales": torch.full((1, 8), 0.5, dtype=torch.float16),
        "layer.g_idx": torch.zeros(32, dtype=torch.int32),
        "norm.weight": torch.ones(8),
    }
    return tensors | changes


def saved(tensors: dict[str, Any], folder: Path) -> Path:
    from safetensors.torch import save_file

    save_file(tensors, folder / "model.safetensors")
    return folder / "model.safetensors"


def test_packed_weights_are_read_back_exactly(tmp_path: Path):
    torch = pytest.importorskip("torch")

    dense = dense_weights(saved(packed(torch), tmp_path))
    expected = (torch.arange(32 * 8).view(32, 8) % 16 - 8) * 0.5
    assert set(dense) == {"layer.weight", "norm.weight"}
    assert torch.equal(dense["layer.weight"], expected.T.float())


def test_broken_packed_weights_are_refused_by_name(tmp_path: Path):
    torch = pytest.importorskip("torch")
    scales = torch.full((1, 8), math.nan, dtype=torch.float16)

    with pytest.raises(QualityError, match="layer has scales that are not finite"):
        dense_weights(saved(packed(torch, **{"layer.scales": scales}), tmp_path))
    with pytest.raises(QualityError, match="layer has the same value in all"):
        dense_weights(saved(packed(torch, **{"layer.qweight": torch.zeros(4, 8, dtype=torch.int32)}), tmp_path))
    with pytest.raises(QualityError, match="no packed weights"):
        dense_weights(saved({"norm.weight": torch.ones(8)}, tmp_path))


class TinyModel:
    """Two tokens, each as likely as the other; one logit beside the targets can be no number."""

    def __init__(self, torch: Any, stray: float = 0.0) -> None:
        self._torch = torch
        self._stray = stray

    def __call__(self, input_ids: Any) -> Any:
        logits = self._torch.zeros(1, input_ids.shape[1], 2)
        logits[0, -1, 1] = self._stray  # the last position predicts nothing that is measured

        class Output:
            pass

        output = Output()
        output.logits = logits  # type: ignore[attr-defined]
        return output

    def generate(self, input_ids: Any, **_options: Any) -> Any:
        return self._torch.cat([input_ids, self._torch.tensor([[1, 0]])], dim=1)


class TinyTokenizer:
    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __call__(self, text: str, **_options: Any) -> Any:
        return {"input_ids": self._torch.tensor([[len(word) % 2 for word in text.split()]])}

    def apply_chat_template(self, messages: list[dict[str, str]], **_options: Any) -> Any:
        return self(messages[0]["content"])

    def decode(self, ids: Any, **_options: Any) -> str:
        return " ".join(str(int(number)) for number in ids)


def test_perplexity_of_two_equal_choices_is_two_and_answers_leave_the_prompt_out():
    torch = pytest.importorskip("torch")

    found = measure(TinyModel(torch), TinyTokenizer(torch), ["one two three", "four five"], BOUNDS)
    assert found.perplexity == pytest.approx(2.0)
    assert found.answers == ("1 0",) * len(PROMPTS)


def test_one_logit_that_is_no_number_shows_wherever_it_stands():
    torch = pytest.importorskip("torch")

    found = measure(TinyModel(torch, stray=math.inf), TinyTokenizer(torch), ["one two three"], BOUNDS)
    assert not math.isfinite(found.perplexity)
