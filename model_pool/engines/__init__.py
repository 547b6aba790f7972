"""The engines that Posthouse can start or ask, by the name that the configuration uses."""

from __future__ import annotations

from model_pool.engines.base import Engine, EngineConfigError
from model_pool.engines.llama_cpp import LlamaCpp
from model_pool.engines.onnxruntime import OnnxRuntime
from model_pool.engines.paced import Paced
from model_pool.engines.remote import Remote
from model_pool.engines.tensorrt_llm import TensorRtLlm
from model_pool.engines.transformers import Transformers
from model_pool.engines.vllm import Vllm

__all__ = ["Engine", "EngineConfigError", "get", "names"]

_ALL: tuple[Engine, ...] = (Vllm(), Transformers(), OnnxRuntime(), LlamaCpp(), TensorRtLlm(), Remote(), Paced())
_ENGINES = {engine.name: engine for engine in _ALL}


def names() -> list[str]:
    """Every known engine, sorted."""
    return sorted(_ENGINES)


def get(name: str) -> Engine:
    """The engine called `name`.

    Raises:
        EngineConfigError: there is none; the message lists those that exist.
    """
    try:
        return _ENGINES[name]
    except KeyError:
        msg = f"engine {name!r} is unknown; known engines: {', '.join(names())}"
        raise EngineConfigError(msg) from None
