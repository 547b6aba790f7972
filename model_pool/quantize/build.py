"""The demo model from its source file to a checked GPTQ folder; needs torch and about 2 GB of memory."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from model_pool.quantize import quality
from model_pool.quantize.calibration import CalibrationSet, calibration_set, messages_of
from model_pool.quantize.checkpoint import dense_weights, missing_files
from model_pool.quantize.demo_source import find_gguf, unpack, write_generation_config
from model_pool.quantize.errors import QualityError
from model_pool.quantize.gptq import prepare_environment, quantise

if TYPE_CHECKING:
    from pathlib import Path

    from model_pool.quantize.progress import Report
    from model_pool.quantize.quality import Measurement
    from model_pool.quantize.recipe import Recipe

REPORT_FILE = "quantization_report.json"


def build(work: Path, recipe: Recipe, report: Report) -> Path:
    """Make the quantised folder inside `work`.

    Args:
        work: an empty folder; what is left in it besides the result is the caller's to remove.
        recipe: how.
        report: told of the steps.

    Returns:
        The finished, checked folder.

    Raises:
        QuantizeError: the source is missing, the calibration set is too small, or the result is not good enough.
    """
    prepare_environment()
    base, out = work / "base", work / "quantised"
    report("Unpack the source model", 0.0)
    model, tokenizer = unpack(find_gguf(), base)
    rows = _calibration(tokenizer, recipe)
    report("Measure the source model", 0.0)
    before = quality.measure(model, tokenizer, recipe.held_out, recipe.quality)
    report("Load the quantiser", 0.0)
    import gptqmodel  # noqa: F401, PLC0415  (takes seconds, and is a step of its own for whoever watches)

    step = f"Quantise to {recipe.gptq.bits} bits (GPTQ)"
    report(step, 0.0)
    quantise(base, out, rows.rows, recipe.gptq, lambda done: report(step, done))
    _complete(out, base)
    report("Check the quantised model", 0.0)
    after = _measure_saved(out, model, tokenizer, recipe)
    quality.check(before, after, recipe.quality)
    _write_report(out, recipe, rows, before, after)
    return out


def _calibration(tokenizer: Any, recipe: Recipe) -> CalibrationSet:
    texts = [tokenizer.apply_chat_template(messages_of(chat), tokenize=False) for chat in recipe.chats]
    return calibration_set(texts, lambda text: tokenizer(text)["input_ids"], recipe.calibration)


def _complete(out: Path, base: Path) -> None:
    """The ids as they were in the base model, since the library adds defaults of its own, and no file missing."""
    write_generation_config(out, json.loads((base / "generation_config.json").read_text()))
    if missing := missing_files(out):
        raise QualityError(f"the quantised folder lacks {', '.join(missing)}")


def _measure_saved(out: Path, model: Any, tokenizer: Any, recipe: Recipe) -> Measurement:
    """Measure what is on the disk, in the body of the unquantised model."""
    left = model.load_state_dict(dense_weights(out / "model.safetensors"), strict=False)
    lacking = [name for name in left.missing_keys if not name.startswith("lm_head.")]
    if lacking or left.unexpected_keys:
        raise QualityError(f"the quantised file has other tensors than the model: {lacking + left.unexpected_keys}")
    return quality.measure(model, tokenizer, recipe.held_out, recipe.quality)


def _write_report(out: Path, recipe: Recipe, rows: CalibrationSet, before: Measurement, after: Measurement) -> None:
    """What was really used and measured, beside the weights."""
    content = {
        "recipe_version": recipe.version,
        "gptq": asdict(recipe.gptq),
        "calibration": asdict(rows.counts) | {"tokens": sum(map(len, rows.rows))},
        "unquantised": asdict(before),
        "quantised": asdict(after),
        "perplexity_ratio": round(after.perplexity / before.perplexity, 4),
    }
    (out / REPORT_FILE).write_text(json.dumps(content, indent=2) + "\n")
