"""ONNX Runtime: models in the ONNX format on our own small server, for CPUs and small machines.

The folder is made from a Hugging Face folder by `python -m model_pool.quantize.onnx FOLDER OUT`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from model_pool.endpoint import Endpoint
from model_pool.engines import options
from model_pool.engines.base import COMMON_FIELDS, EngineConfigError, refuse_unknown_options, sequences

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec, ModelSpec

_OPTIONS = {"cpu_threads": "threads of the CPU's kernels, all cores but one"}
_FILES = ("genai_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


class OnnxRuntime:
    """Starts `model_pool.servers.onnxruntime`."""

    name = "onnxruntime"
    # It has no presence and frequency penalties.
    request_fields = (COMMON_FIELDS - {"presence_penalty", "frequency_penalty"}) | {"top_k", "repetition_penalty"}
    continues_by_ids = True
    logs_stats = True

    def command(self, spec: InstanceSpec) -> list[str]:
        model = spec.model
        settings = {
            "--uds": spec.socket,
            "--model": model.name,
            "--folder": model.path,
            "--max-concurrency": sequences(model),
            "--context-length": model.context_length,
            "--threads": _threads(model),
        }
        words = [str(part) for pair in settings.items() for part in pair]
        return [sys.executable, "-m", "model_pool.servers.onnxruntime", *words]

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        return Endpoint(spec.model.name, uds=spec.socket)

    def environment(self, spec: InstanceSpec) -> dict[str, str]:
        return options.visible_device(spec)

    def check(self, spec: InstanceSpec) -> None:
        options.require_package(self.name, "onnxruntime_genai", "onnxruntime-genai (extra onnx)")
        options.require_device(spec, ("cpu",))
        refuse_unknown_options(spec.model, _OPTIONS)
        _threads(spec.model)
        try:
            options.require_files(spec.model, *_FILES)
        except EngineConfigError as error:
            msg = f"{error} (python -m model_pool.quantize.onnx FOLDER OUT makes one)"
            raise EngineConfigError(msg) from None


def _threads(model: ModelSpec) -> int:
    cores = max(1, len(os.sched_getaffinity(0)) - 1)
    return options.whole_option(model, "cpu_threads", cores, least=1, most=1024)
