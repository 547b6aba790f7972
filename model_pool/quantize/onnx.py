"""An int4 ONNX folder from a Hugging Face folder: `python -m model_pool.quantize.onnx FOLDER OUT`.

The work is onnxruntime-genai's model builder's, which runs as a process of its own; its thousands of lines go to
`OUT.log`. The weights are rounded to the nearest of 16 values in groups of 32, without calibration.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from model_pool.quantize.errors import FolderError, QuantizeError, SourceMissingError
from model_pool.quantize.folder import check_disk_space, locked, publish, workshop

if TYPE_CHECKING:
    from collections.abc import Sequence

_WAIT_SECONDS = 900.0
_NEEDS = ("config.json", "tokenizer.json")
MADE = ("genai_config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json")
_TAIL = 600


def build(source: Path, out: Path, *, command: Sequence[str] = ()) -> Path:
    """Make the folder `out`; it appears whole or not at all.

    Args:
        source: a folder with a model that is not quantised, and its tokenizer.
        out: must not exist.
        command: the model builder, unless it is the installed one.

    Raises:
        QuantizeError: the source lacks something, `out` is there, or the builder failed (the message ends with its
            last words).
    """
    _check(source, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with locked(out, wait=_WAIT_SECONDS, on_wait=lambda: None):
        check_disk_space(out.parent, 2 * sum(file.stat().st_size for file in source.glob("*.safetensors")))
        with workshop(out) as folder:
            made = folder / "made"
            _run([*(command or _builder()), *_arguments(source, made, folder / "cache")], log_of(out))
            missing = [name for name in MADE if not (made / name).is_file()]
            if missing:
                raise QuantizeError(f"the model builder made no {', no '.join(missing)}; see {log_of(out)}")
            publish(made, out)
    return out


def log_of(out: Path) -> Path:
    """Where the builder's own lines go."""
    return out.with_name(f"{out.name}.log")


def _check(source: Path, out: Path) -> None:
    if out.exists():
        raise FolderError(f"{out} is there already")
    missing = [name for name in _NEEDS if not (source / name).is_file()]
    if missing or not any(source.glob("*.safetensors")):
        lacks = ", ".join(missing or ["weights (*.safetensors)"])
        raise SourceMissingError(f"{source} is no Hugging Face folder with a model: it lacks {lacks}")


def _builder() -> list[str]:
    return [sys.executable, "-m", "onnxruntime_genai.models.builder"]


def _arguments(source: Path, made: Path, cache: Path) -> list[str]:
    fixed = ["--precision", "int4", "--execution_provider", "cpu"]
    # Level 4: the kernels multiply in int8, which is what makes 4-bit weights fast on a CPU.
    extra = ["--extra_options", "int4_block_size=32", "int4_accuracy_level=4"]
    return ["--input", str(source), "--output", str(made), "--cache_dir", str(cache), *fixed, *extra]


def _run(command: Sequence[str], log: Path) -> None:
    with log.open("wb") as lines:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=lines, stderr=lines, check=False).returncode
    if status:
        last = log.read_text(errors="replace")[-_TAIL:].strip()
        raise QuantizeError(f"the model builder ended with status {status}; {log} ends with: {last}")


def main() -> None:
    """Parse the command line and build, with a word about what goes on."""
    parser = argparse.ArgumentParser(prog="python -m model_pool.quantize.onnx", description=__doc__)
    parser.add_argument("folder", type=Path, help="a Hugging Face folder, not quantised")
    parser.add_argument("out", type=Path, help="the folder to make")
    options = parser.parse_args()
    console = Console(stderr=True)
    try:
        with console.status(f"int4 ONNX of {options.folder}"):
            made = build(options.folder.absolute(), options.out.absolute())
    except QuantizeError as error:
        sys.exit(f"{parser.prog}: {error}")
    console.print(f"made {made}")


if __name__ == "__main__":
    main()
