"""The demo model as a 4-bit folder, made on first use: `python -m model_pool.quantize.demo FOLDER`.

Run it as a process of its own: torch must not come into an API or a Celery process. The libraries print thousands
of lines; they go to `<FOLDER>.log` beside the folder, and the terminal shows the steps only.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from model_pool.quantize.checkpoint import missing_files
from model_pool.quantize.demo_source import find_gguf
from model_pool.quantize.errors import FolderError, QuantizeError
from model_pool.quantize.folder import check_disk_space, locked, publish, workshop
from model_pool.quantize.progress import shown_on
from model_pool.quantize.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from model_pool.quantize.progress import Report

    # Builds inside an empty folder and returns the finished folder in it.
    Builder = Callable[[Path, Recipe, Report], Path]

# The unpacked model 270 MB, the result 123 MB, and some room.
NEEDED_BYTES = 600_000_000
_WAIT_SECONDS = 900.0
_INTERRUPTED = 130


def demo_folder_name(recipe: Recipe | None = None) -> str:
    """Name of the demo model's folder: it changes with the recipe and with the source file. Reads about 100 MB.

    Raises:
        SourceMissingError: the package with the source file is not installed.
    """
    recipe = recipe or Recipe()
    gptq = recipe.gptq
    return f"smollm2-135m-gptq-{gptq.bits}bit-g{gptq.group_size}-{recipe.digest(find_gguf())}"


def ensure_demo_model(
    folder: Path,
    progress: Report,
    *,
    builder: Builder | None = None,
    wait: float = _WAIT_SECONDS,
    free: Callable[[Path], int] | None = None,
) -> Path:
    """The folder with the quantised demo model; built if it is not there.

    Args:
        folder: where it is, or shall be; appears whole or not at all.
        progress: told of the steps of a build; not called when there is nothing to do.
        builder: makes the folder; `model_pool.quantize.build.build` unless another is given.
        wait: seconds to wait for another process that builds the same folder.
        free: gives the free bytes of a folder's file system.

    Returns:
        The folder's absolute path.

    Raises:
        QuantizeError: why there is no model; nothing is left behind then.
    """
    folder = folder.absolute()
    if _is_there(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder, wait=wait, on_wait=lambda: progress("Wait for another build", 0.0)):
        if not _is_there(folder):
            check_disk_space(folder.parent, NEEDED_BYTES, free)
            _build(folder, progress, builder or _real_builder())
    return folder


def _is_there(folder: Path) -> bool:
    if not folder.exists():
        return False
    if missing := missing_files(folder):
        raise FolderError(f"{folder} lacks {', '.join(missing)}; remove the folder and run again")
    return True


def _build(folder: Path, progress: Report, builder: Builder) -> None:
    with workshop(folder) as work:
        publish(builder(work, Recipe(), progress), folder)


def _real_builder() -> Builder:
    from model_pool.quantize.build import build  # noqa: PLC0415  (nothing of it is needed while the folder is there)

    return build


def _divert_output(log: Path) -> Console:
    """Send this process's standard output and error to a file, native code's too, and keep the terminal for us."""
    console = Console(file=os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8"))
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("a") as file:  # another build may be writing to it
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    return console


def _end(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt  # so that the temporary folder goes also when a supervisor stops us


def main(arguments: list[str]) -> int:
    """Exit status: 0 the folder is there, 1 it is not and the reason was printed, 2 wrong usage, 130 interrupted."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m model_pool.quantize.demo FOLDER\n")
        return 2
    signal.signal(signal.SIGTERM, _end)
    folder = Path(arguments[0]).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(f"{folder.name}.log")
    console = _divert_output(log)
    try:
        with shown_on(console) as report:
            ensure_demo_model(folder, report)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except QuantizeError as error:
        console.print(f"The demo model was not built: {error}", markup=False, soft_wrap=True)
    except Exception as error:  # noqa: BLE001  (whatever the libraries raise: the trace is in the log, the terminal has its name)
        traceback.print_exc()
        console.print(f"The demo model was not built: {type(error).__name__}: {error}", markup=False, soft_wrap=True)
    else:
        return 0
    console.print(f"The libraries' own output is in {log}", markup=False, soft_wrap=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
