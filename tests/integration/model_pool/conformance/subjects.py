"""The engines under test: how each is fed with the demo model, and what it needs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model_pool import engines
from model_pool.quantize import samples
from model_pool.quantize.errors import SourceMissingError
from model_pool.spec import InstanceSpec, ModelSpec

MODELS = Path("~/.cache/posthouse/models").expanduser()
CAPACITY = 4


@dataclass(frozen=True)
class Subject:
    """One engine.

    Attributes:
        path: where its weights are; may build them.
        long: a prompt whose answer is longer than any budget that the tests give, but for `paced`.
        utf8: a prompt that is likely to be answered with more than ASCII.
        behind: the engine that serves on a port of its own where this one only asks.
    """

    engine: str
    path: Callable[[], str] = str
    options: dict[str, Any] = field(default_factory=dict)
    behind: str = ""
    long: str = "Write a very long story about a horse that carries letters over the mountains."
    utf8: str = "Repeat this exactly: 🐎 驿站换马 🐎 žluťoučký kůň 🐎"

    def spec(self, run_dir: Path) -> InstanceSpec:
        model = ModelSpec(
            "demo", self.engine, self.path(), context_length=1024, max_concurrency=CAPACITY, options=self.options
        )
        return InstanceSpec(model, 0, "cpu", run_dir)

    def missing(self) -> str:
        """Why it cannot run here; empty if it can."""
        if self.behind:
            return SUBJECTS[self.behind].missing()
        try:
            samples.gguf()
            engines.get(self.engine).check(self.spec(Path("/run/ph")))
        except (engines.EngineConfigError, SourceMissingError) as error:
            return str(error)
        return ""


SUBJECTS = {
    "paced": Subject(
        "paced",
        options={"tpot_ms": 5},
        long=" ".join(f"word{n}" for n in range(300)),
        utf8="{{bytes}}🐎 驿站换马 🐎 žluťoučký kůň",
    ),
    "vllm": Subject("vllm", lambda: str(samples.gptq(MODELS))),
    "remote-vllm": Subject("remote", options={"dialect": "vllm"}, behind="vllm"),
    "transformers": Subject("transformers", lambda: str(samples.plain(MODELS))),
    "transformers-gguf": Subject("transformers", lambda: str(samples.gguf())),
    "onnxruntime": Subject("onnxruntime", lambda: str(samples.int4_onnx(MODELS))),
    "llama_cpp": Subject("llama_cpp", lambda: str(samples.gguf())),
}
