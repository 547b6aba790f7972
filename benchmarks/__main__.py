"""`python -m benchmarks [NAME …]`: run the benchmarks one after another, print their tables, write one JSON file."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import replace

from rich.console import Console

from benchmarks.support import report
from benchmarks.support.figures import Outcome
from benchmarks.support.neighbours import QUIET, Neighbours

NAMES = ("drain", "first_token", "open_streams", "chat", "cached", "overload", "joined", "line", "pool", "real_model")


def _run(name: str, console: Console) -> Outcome:
    measure = importlib.import_module(f"benchmarks.{name}").measure
    with Neighbours() as neighbours, console.status(name) as status:
        outcome: Outcome = measure(lambda text: status.update(f"{name}: {text}"))
    others = round(neighbours.cores(), 2)
    report.show(outcome, console)
    if others > QUIET:
        console.print(f"[yellow]other work took {others:g} cores meanwhile: run this again on an idle machine")
    return replace(outcome, conditions={**outcome.conditions, "cores_of_other_work": others})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(NAMES)} (default: all)")
    names = parser.parse_args().names or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(NAMES)}")
    console = Console()
    outcomes = {name: _run(name, console) for name in names}
    console.print(f"written to {report.write(outcomes)}")


if __name__ == "__main__":
    main()
