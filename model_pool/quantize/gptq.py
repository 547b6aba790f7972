"""4-bit GPTQ (Frantar et al. 2022) of a Hugging Face folder, by GPTQModel.

Scales are symmetric and channels keep their order: the one form that every kernel of vLLM serves, the CPU's included.
"""

from __future__ import annotations

import math
import os
from contextlib import chdir
from typing import TYPE_CHECKING, Any

from model_pool.quantize.errors import QualityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from model_pool.quantize.recipe import GptqSettings

# GPTQModel gives this loss to a module whose Hessian it could not invert.
_FAILED_LOSS = 999_999_999


class _LayerCallback:
    """GPTQModel calls this when a layer's modules are quantised, and once more when they are packed."""

    def __init__(self, layers: int, done: Callable[[float], None]) -> None:
        self._layers = layers
        self._done = done

    def layer_complete(self, *, layer_idx: int, submodule_finalized: bool) -> None:
        if not submodule_finalized:
            self._done((layer_idx + 1) / self._layers)


def quantise(
    base: Path, out: Path, rows: Sequence[Sequence[int]], settings: GptqSettings, done: Callable[[float], None]
) -> None:
    """Quantise the model in `base` into the new folder `out`, tokenizer and chat template included.

    Args:
        base: a Hugging Face folder, absolute; the library's own logs are written beside it.
        out: absolute; created.
        rows: token ids of the calibration rows.
        settings: bits, group size, batch size.
        done: called with the share of the layers that are quantised, 0 to 1.

    Raises:
        QualityError: a module's loss is not a number.
    """
    from gptqmodel import GPTQModel, QuantizeConfig  # noqa: PLC0415  (imports torch; and reads the environment)

    config = QuantizeConfig(
        bits=settings.bits,
        group_size=settings.group_size,
        sym=True,
        desc_act=False,
        fallback=None,  # a module that cannot be calibrated is an error, not a silent rounding to nearest
        offload_to_disk=False,  # it doubles the time, and the folder would name a temporary folder of this machine
    )
    model = GPTQModel.load(str(base), config, device="cpu")
    model.layer_callback = _LayerCallback(model.model.config.num_hidden_layers, done)
    examples = [{"input_ids": list(row), "attention_mask": [1] * len(row)} for row in rows]
    with chdir(base.parent):  # it writes a folder "logs" wherever it stands
        check_losses(model.quantize(examples, batch_size=settings.batch_size))
        model.save(str(out))


def prepare_environment() -> None:
    """What the libraries read from the environment when they are imported. Call it before `quantise` and `unpack`."""
    # By itself it counts half of the cores and refuses to start on a small machine.
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", str(max(2, (os.cpu_count() or 2) // 2)))
    # Spinning threads take the core that the other one waits for: the same measurement took 5 s instead of 25 s
    # while the machine was busy otherwise.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Everything is in local folders; a look at a hub would only wait for a timeout.
    os.environ["HF_HUB_OFFLINE"] = "1"


def check_losses(log: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Look through GPTQModel's log of losses, one entry a module.

    Raises:
        QualityError: naming the first module whose loss is no number, or that was not calibrated at all.
    """
    for entry in (entry for entries in log.values() for entry in entries):
        loss = str(entry["loss"])
        if not is_sound(loss):
            name = f"layer {entry['layer']}, {entry['module']}"
            raise QualityError(f"the quantisation of {name} failed (loss: {loss}); look at the calibration texts")


def is_sound(loss: str) -> bool:
    """Whether a logged loss is a finite number below GPTQModel's mark for failure."""
    try:
        value = float(loss)
    except ValueError:
        return False
    return math.isfinite(value) and value < _FAILED_LOSS
