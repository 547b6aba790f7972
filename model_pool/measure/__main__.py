"""`python -m model_pool.measure`: measure the engines that run here, one at a time, and write their page's tables."""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from rich.console import Console

from model_pool.measure import page
from model_pool.measure.measured import Measured, measure
from model_pool.measure.subjects import SUBJECTS, Subject
from model_pool.quantize.errors import QuantizeError

if TYPE_CHECKING:
    from collections.abc import Iterable

_WARNING = 30


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="posthouse bench engines", description=__doc__)
    names = [subject.engine for subject in SUBJECTS]
    parser.add_argument("--only", action="append", choices=names, help="measure this engine; may be repeated")
    parser.add_argument("--page", type=Path, help="rewrite the tables in this file (docs/engines.md)")
    parser.add_argument("--models", type=Path, required=True, help="folder for the demo model's forms")
    return parser.parse_args()


def _all(subjects: Iterable[Subject], models: Path, console: Console) -> dict[Subject, Measured | str]:
    rows: dict[Subject, Measured | str] = {}
    for subject in subjects:
        rows[subject] = subject.missing() or _one(subject, models, console)
    return rows


def _one(subject: Subject, models: Path, console: Console) -> Measured | str:
    with console.status(subject.engine) as status:
        try:
            row = measure(subject, models, lambda step: status.update(f"{subject.engine}: {step}"))
        except (QuantizeError, RuntimeError) as error:
            return str(error)
    console.print(f"{subject.engine}: {row}")
    return row


def _machine() -> str:
    """What the numbers depend on, and how busy it is with other things: a load of 0 is a machine of one's own."""
    cores = f"{len(os.sched_getaffinity(0))} cores ({platform.machine()}) without a GPU"
    return f"{cores}, Python {platform.python_version()}, load average {os.getloadavg()[0]:.1f} beforehand"


def main() -> None:
    """Measure, print, and rewrite the page if one is named."""
    options = _arguments()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_WARNING))
    console = Console(stderr=True)
    chosen = [subject for subject in SUBJECTS if not options.only or subject.engine in options.only]
    machine = _machine()
    rows = _all(chosen, options.models.expanduser(), console)
    with tempfile.TemporaryDirectory() as folder:
        content = page.tables(rows, Path(folder), machine)
    print(content)  # noqa: T201 -- the command's output
    if options.page is not None:
        options.page.write_text(page.rewrite(options.page.read_text(), content))


if __name__ == "__main__":
    main()
