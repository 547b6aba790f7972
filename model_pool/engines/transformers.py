"""PyTorch without vLLM: transformers' continuous batching on our own small server, for folders and GGUF files.

Our server stands in for `transformers serve` because that one samples all requests like the first it ever got, and
gives neither token ids nor a way to continue (5.19; see docs/decisions).
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from model_pool.endpoint import Endpoint
from model_pool.engines import options
from model_pool.engines.base import (
    COMMON_FIELDS,
    EngineConfigError,
    number_option,
    refuse_unknown_options,
    sequences,
)
from model_pool.engines.weights import gguf_of

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec, ModelSpec

_OPTIONS = {
    "dtype": "type of weights and activations: auto, bfloat16, float16, float32",
    "gpu_memory_utilization": "share of a GPU's free memory for the KV cache, memory_share or 0.8",
    "kv_cache_tokens": "tokens that the KV cache holds on the CPU, 8192",
    "cpu_threads": "threads of the CPU's kernels, all cores but one",
}
_DTYPES = ("auto", "bfloat16", "float16", "float32")
_KV_TOKENS = 8192


class Transformers:
    """Starts `model_pool.servers.transformers`."""

    name = "transformers"
    # Its batches have neither penalties nor a seed for each request.
    request_fields = (COMMON_FIELDS - {"presence_penalty", "frequency_penalty", "seed"}) | {"top_k"}
    continues_by_ids = True
    logs_stats = True

    def command(self, spec: InstanceSpec) -> list[str]:
        model = spec.model
        settings = {
            "--uds": spec.socket,
            "--model": model.name,
            "--path": gguf_of(model) or model.path,
            "--device": "cpu" if spec.device == "cpu" else "cuda:0",  # the only one that it sees
            "--dtype": model.options.get("dtype", "auto"),
            "--max-concurrency": sequences(model),
            "--context-length": model.context_length,
        }
        if model.revision and not model.is_local:
            settings["--revision"] = model.revision
        if spec.device == "cpu":
            settings |= {"--kv-tokens": _kv_tokens(model), "--threads": _threads(model)}
        else:
            settings["--memory-share"] = _share(model)
        words = [str(part) for pair in settings.items() for part in pair]
        return [sys.executable, "-m", "model_pool.servers.transformers", *words]

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        return Endpoint(spec.model.name, uds=spec.socket)

    def environment(self, spec: InstanceSpec) -> dict[str, str]:
        offline = {"HF_HUB_OFFLINE": "1"} if spec.model.is_local or gguf_of(spec.model) else {}
        return {**options.visible_device(spec), **offline, "PYTHONDONTWRITEBYTECODE": ""}

    def check(self, spec: InstanceSpec) -> None:
        model = spec.model
        options.require_package(self.name, "torch", "torch")
        options.require_package(self.name, "transformers", "transformers")
        options.require_device(spec, ("cpu", "cuda"))
        refuse_unknown_options(model, _OPTIONS)
        options.require_option(model, "dtype", model.options.get("dtype", "auto") in _DTYPES, " or ".join(_DTYPES))
        _kv_tokens(model), _threads(model), _share(model)
        if gguf_of(model) is not None:
            options.require_package(self.name, "gguf", "gguf")
        elif model.is_local:
            options.require_files(model, "config.json", "tokenizer.json", "tokenizer_config.json")
        elif not model.path or model.path.endswith(".gguf"):
            msg = f"models.{model.name}.path: {model.path!r} is no folder, no GGUF file and no hub id"
            raise EngineConfigError(msg)


def _kv_tokens(model: ModelSpec) -> int:
    default = max(_KV_TOKENS, model.context_length)
    return options.whole_option(model, "kv_cache_tokens", default, least=model.context_length, most=10**9)


def _threads(model: ModelSpec) -> int:
    cores = max(1, len(os.sched_getaffinity(0)) - 1)
    return options.whole_option(model, "cpu_threads", cores, least=1, most=1024)


def _share(model: ModelSpec) -> float:
    return number_option(model, "gpu_memory_utilization", model.memory_share or 0.8, least=0.05, most=1.0)
