"""TensorRT-LLM on NVIDIA GPUs: `trtllm-serve`.

Checked against its documentation and its `tensorrt_llm/commands/serve.py`, never run by us: it needs an NVIDIA GPU. It
listens on a port of the loopback address, which every local user can reach, since it knows no Unix socket.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from model_pool import ports
from model_pool.bodies import PLAIN
from model_pool.endpoint import Endpoint
from model_pool.engines import options
from model_pool.engines.base import (
    COMMON_FIELDS,
    EngineConfigError,
    number_option,
    refuse_unknown_options,
    sequences,
)

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec

_OPTIONS = {
    "gpu_memory_utilization": "share of the GPU's memory left beside the weights that the KV cache may take, 0.9",
    "extra_args": "list of further arguments for trtllm-serve's command line",
}


class TensorRtLlm:
    """Starts TensorRT-LLM's OpenAI server."""

    name = "tensorrt_llm"
    request_fields = COMMON_FIELDS | {"response_format", "top_k", "min_p", "repetition_penalty"}
    # It takes token ids as a prompt, but whether it streams those of an answer we have not seen.
    continues_by_ids = False
    logs_stats = False

    def command(self, spec: InstanceSpec) -> list[str]:
        model = spec.model
        port = ports.port_of(spec)
        ports.check_free(port)
        settings = {
            "--backend": "pytorch",
            "--host": ports.HOST,
            "--port": port,
            "--max_batch_size": sequences(model),
            "--max_seq_len": model.context_length,
            "--free_gpu_memory_fraction": model.options.get("gpu_memory_utilization", 0.9),
        }
        if model.revision and not model.is_local:
            settings["--revision"] = model.revision
        words = [str(part) for pair in settings.items() for part in pair]
        return ["trtllm-serve", model.path, *words, *options.extra_arguments(model)]

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        # A folder is served under its last name.
        name = Path(spec.model.path).name if spec.model.is_local else spec.model.path
        return Endpoint(name, base_url=f"http://{ports.HOST}:{ports.port_of(spec)}", dialect=PLAIN)

    def environment(self, spec: InstanceSpec) -> dict[str, str]:
        return options.visible_device(spec)

    def check(self, spec: InstanceSpec) -> None:
        model = spec.model
        if shutil.which("trtllm-serve") is None:
            msg = "engine tensorrt_llm needs trtllm-serve on the PATH (package tensorrt-llm)"
            raise EngineConfigError(msg)
        options.require_device(spec, ("cuda",))
        refuse_unknown_options(model, _OPTIONS)
        number_option(model, "gpu_memory_utilization", 0.9, least=0.05, most=1.0)
        options.extra_arguments(model)
        if not model.path:
            msg = f"models.{model.name}.path is empty; engine tensorrt_llm needs a folder with weights or a hub id"
            raise EngineConfigError(msg)
