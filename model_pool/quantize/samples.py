"""The demo model in the form that each engine eats, made on first use and kept beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model_pool.quantize import onnx
from model_pool.quantize.demo import demo_folder_name, ensure_demo_model
from model_pool.quantize.demo_source import find_gguf, unpack
from model_pool.quantize.folder import check_disk_space, locked, publish, workshop

if TYPE_CHECKING:
    from pathlib import Path

_WAIT_SECONDS = 900.0
_PLAIN_BYTES = 600_000_000


def gguf() -> Path:
    """The file that all others are made from. Raises `SourceMissingError`."""
    return find_gguf()


def gptq(models: Path) -> Path:
    """The 4-bit GPTQ folder. Raises `QuantizeError`."""
    return ensure_demo_model(models / demo_folder_name(), lambda *_: None)


def plain(models: Path) -> Path:
    """A Hugging Face folder in bfloat16. Imports torch. Raises `QuantizeError`."""
    folder = models / "smollm2-135m-bf16"
    models.mkdir(parents=True, exist_ok=True)
    with locked(folder, wait=_WAIT_SECONDS, on_wait=lambda: None):
        if not folder.exists():
            check_disk_space(models, _PLAIN_BYTES)
            with workshop(folder) as shop:
                unpack(find_gguf(), shop / "made")
                publish(shop / "made", folder)
    return folder


def int4_onnx(models: Path) -> Path:
    """The int4 ONNX folder. Raises `QuantizeError`."""
    folder = models / "smollm2-135m-onnx-int4"
    return folder if folder.exists() else onnx.build(plain(models), folder)
