"""What is measured: each engine with the demo model in the form that it eats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from model_pool import engines
from model_pool.quantize import samples
from model_pool.quantize.errors import SourceMissingError
from model_pool.spec import InstanceSpec, ModelSpec

STREAMS = 16
_CONTEXT = 1024


@dataclass(frozen=True)
class Subject:
    """One row of the table.

    Attributes:
        engine: the engine's name.
        weights: what the weights are, in words.
        path: makes or finds them.
        builder: a module that `path` needs, beyond the engine's own.
    """

    engine: str
    weights: str
    path: Callable[[Path], Path]
    builder: str = ""

    def spec(self, models: Path, run_dir: Path) -> InstanceSpec:
        """May build the weights.

        Raises:
            QuantizeError: they cannot be built.
        """
        model = ModelSpec("demo", self.engine, str(self.path(models)), context_length=_CONTEXT, max_concurrency=STREAMS)
        return InstanceSpec(model, 0, "cpu", run_dir)

    def missing(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        if self.builder and find_spec(self.builder) is None:
            return f"its weights are made by {self.builder}, which is not installed"
        try:
            # Judged by a path that is never there: what the engine itself lacks is told before that.
            engines.get(self.engine).check(InstanceSpec(ModelSpec("demo", self.engine), 0, "cpu", Path("/run")))
        except engines.EngineConfigError as error:
            return "" if ".path" in str(error) else str(error)
        try:
            samples.gguf()
        except SourceMissingError as error:
            return str(error)
        return ""


SUBJECTS = (
    Subject("vllm", "GPTQ, 4 bits", samples.gptq, builder="gptqmodel"),
    Subject("transformers", "bfloat16", samples.plain, builder="gguf"),
    Subject("onnxruntime", "ONNX, int4", samples.int4_onnx, builder="onnx"),
    Subject("llama_cpp", "GGUF, Q4_1", lambda _: samples.gguf()),
)
