"""llama.cpp: GGUF files, by the `llama-server` on the PATH, else by the one in the module xllamacpp.

Flags are those of llama.cpp's `tools/server/README.md`. Its OpenAI endpoints stream no token ids, so answers are
continued by their text: a last message of the assistant is gone on with.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from model_pool.bodies import Dialect
from model_pool.endpoint import Endpoint
from model_pool.engines import options
from model_pool.engines.base import COMMON_FIELDS, EngineConfigError, refuse_unknown_options, sequences
from model_pool.engines.weights import require_gguf

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec, ModelSpec

_OPTIONS = {
    "cpu_threads": "threads of the CPU's kernels, all cores but one",
    "extra_args": "list of further arguments for llama-server's command line (not for the module's)",
}
_ALL_LAYERS = 999
_WARNINGS = 2


class LlamaCpp:
    """Starts llama.cpp's server."""

    name = "llama_cpp"
    request_fields = COMMON_FIELDS | {
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "top_k",
        "min_p",
    }
    continues_by_ids = False
    logs_stats = False

    def command(self, spec: InstanceSpec) -> list[str]:
        server = shutil.which("llama-server")
        return _module(spec) if server is None else _binary(server, spec)

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        dialect = Dialect(token_ids=False, stop_in_output=False, cache_salt=False)
        # Its server hangs up on idle connections when it likes, now and then in the moment of their next use.
        return Endpoint(spec.model.name, uds=spec.socket, headers={"Connection": "close"}, dialect=dialect)

    def environment(self, spec: InstanceSpec) -> dict[str, str]:
        return options.visible_device(spec)

    def check(self, spec: InstanceSpec) -> None:
        if shutil.which("llama-server") is None and find_spec("xllamacpp") is None:
            msg = "engine llama_cpp needs llama-server on the PATH, or the package xllamacpp (extra llama-cpp)"
            raise EngineConfigError(msg)
        options.require_device(spec, ("cpu", "cuda"))
        refuse_unknown_options(spec.model, _OPTIONS)
        options.extra_arguments(spec.model)
        _threads(spec.model)
        require_gguf(spec.model)


def _binary(server: str, spec: InstanceSpec) -> list[str]:
    model = spec.model
    settings = {
        "--model": require_gguf(model),
        "--alias": model.name,
        "--host": spec.socket,  # what ends with .sock is a Unix socket
        "--parallel": sequences(model),
        "--ctx-size": sequences(model) * model.context_length,
        "--threads": _threads(model),
        # The request says how to sample: what it leaves out is not filled with llama.cpp's own taste.
        "--top-k": 0,
        "--min-p": 0,
        "--top-p": 1,
        "--temp": 1,
        "--log-verbosity": _WARNINGS,
        "--n-gpu-layers": 0 if spec.device == "cpu" else _ALL_LAYERS,
    }
    words = [str(part) for pair in settings.items() for part in pair]
    # One tenant's prompts would speed up another's, who could tell by the time.
    return [server, *words, "--no-cache-prompt", "--no-webui", "--no-slots", *options.extra_arguments(model)]


def _module(spec: InstanceSpec) -> list[str]:
    model = spec.model
    settings = {
        "--uds": spec.socket,
        "--model": model.name,
        "--file": require_gguf(model),
        "--parallel": sequences(model),
        "--context": model.context_length,
        "--threads": _threads(model),
    }
    words = [str(part) for pair in settings.items() for part in pair]
    gpu = [] if spec.device == "cpu" else ["--gpu"]
    return [sys.executable, "-m", "model_pool.servers.llama_cpp", *words, *gpu]


def _threads(model: ModelSpec) -> int:
    cores = max(1, len(os.sched_getaffinity(0)) - 1)
    return options.whole_option(model, "cpu_threads", cores, least=1, most=1024)
