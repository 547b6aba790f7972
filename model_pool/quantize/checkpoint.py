"""What a served GPTQ folder must hold, and its weights read back from the packed file.

Reading the file by our own few lines, and not with the library that wrote it, is the point: a scale or a zero point
that is right in memory and wrong on disk shows up here. Layout: AutoGPTQ's checkpoint format, 4 bits, symmetric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from model_pool.quantize.errors import QualityError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PACKED = ".qweight"
_BITS = 4
_PER_WORD = 32 // _BITS
_ZERO_POINT = 1 << (_BITS - 1)

REQUIRED_FILES: Final = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def missing_files(folder: Path) -> list[str]:
    """Names of the files without which the folder cannot be served."""
    return [name for name in REQUIRED_FILES if not (folder / name).is_file()]


def dense_weights(file: Path) -> dict[str, Any]:
    """All tensors of a safetensors file by name, the packed ones as float32 matrices [out, in] named `….weight`.

    Raises:
        QualityError: no packed weights, or a packed matrix with no information in it.
    """
    from safetensors.torch import load_file  # noqa: PLC0415  (imports torch)

    tensors = load_file(file)
    packed = [name.removesuffix(_PACKED) for name in tensors if name.endswith(_PACKED)]
    if not packed:
        raise QualityError(f"{file.name} has no packed weights")
    dense = {name: tensor for name, tensor in tensors.items() if name.rpartition(".")[0] not in packed}
    return dense | {f"{name}.weight": _unpacked(name, tensors) for name in packed}


def _unpacked(name: str, tensors: Mapping[str, Any]) -> Any:
    """One matrix [out, in] from words [in / 8, out], scales [groups, out] and the group of each input [in]."""
    import torch  # noqa: PLC0415  (as above)

    words, scales, group_of = (tensors[f"{name}.{part}"] for part in ("qweight", "scales", "g_idx"))
    if not torch.isfinite(scales).all():
        raise QualityError(f"{name} has scales that are not finite numbers")
    if (words == words.flatten()[0]).all():
        raise QualityError(f"{name} has the same value in all of its packed weights")
    shifts = torch.arange(_PER_WORD, dtype=torch.int32) * _BITS
    values = (words.unsqueeze(1) >> shifts.view(1, -1, 1)) & ((1 << _BITS) - 1)
    values = values.reshape(-1, words.shape[1]) - _ZERO_POINT
    return (values * scales.float()[group_of.long()]).T.contiguous()
