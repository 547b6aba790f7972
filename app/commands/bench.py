"""`posthouse bench engines`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from app import settings
from app.commands import configured

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def bench() -> None:
    """Measure parts of Posthouse on this machine."""


@bench.command()
@click.option("--only", multiple=True, help="Measure this engine alone; may be repeated.")
@click.option("--page", type=_FILE, help="Rewrite the tables of this file, such as docs/engines.md.")
def engines(*, only: tuple[str, ...], page: Path | None) -> None:
    """Every engine that runs here with the demo model, one at a time: start, first token, tokens a second, memory.

    Takes some minutes and all cores. The first run also makes the demo model in each engine's form.
    """
    models = configured.load().models_dir.expanduser()
    words = [sys.executable, "-m", "model_pool.measure", "--models", str(models)]
    words += [word for name in only for word in ("--only", name)]
    words += ["--page", str(page)] if page is not None else []
    # A process of its own in the place of this one: building models imports torch.
    os.execve(words[0], words, settings.process_environment())  # noqa: S606 -- no shell, on purpose
