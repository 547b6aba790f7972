"""Where a model's weights stand: a Hugging Face folder, or a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from model_pool.engines.base import EngineConfigError

if TYPE_CHECKING:
    from model_pool.spec import ModelSpec


def gguf_of(model: ModelSpec) -> Path | None:
    """The GGUF file that the model's path names: itself, or the only one in its folder; None if there is none.

    Raises:
        EngineConfigError: the folder has several.
    """
    path = Path(model.path)
    if path.suffix == ".gguf" and path.is_file():
        return path
    found = sorted(path.glob("*.gguf")) if model.is_local else []
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        msg = f"models.{model.name}.path: {path} has several GGUF files ({names}); name the one that is to be served"
        raise EngineConfigError(msg)
    return found[0] if found else None


def require_gguf(model: ModelSpec) -> Path:
    """Like `gguf_of`, but raises `EngineConfigError` where there is none."""
    file = gguf_of(model)
    if file is None:
        msg = f"models.{model.name}.path: {model.path!r} is neither a GGUF file nor a folder with one"
        raise EngineConfigError(msg)
    return file
