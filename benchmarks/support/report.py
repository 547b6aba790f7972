"""Figures on the terminal and in a JSON file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.support.figures import Figure, Outcome

RESULTS = Path(__file__).parents[1] / "results"


def show(outcome: Outcome, console: Console) -> None:
    """Print one benchmark's table."""
    table = Table(title=outcome.title, title_justify="left", title_style="bold")
    for column, justify in (("figure", "left"), ("value", "right"), ("target", "right"), ("holds", "left")):
        table.add_column(column, justify=justify)
    table.add_column("rounds", style="dim")
    for figure in outcome.figures:
        table.add_row(*_row(figure))
    console.print(table)


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    verdict = ("[green]yes" if figure.holds else "[red]NO") if figure.judged else ""
    rounds = " ".join(_number(value) for value in figure.rounds)
    name = f"{figure.name} [dim]({figure.note})" if figure.note else figure.name
    return name, f"{_number(figure.value)} {figure.unit}".strip(), figure.target, verdict, rounds


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def write(outcomes: dict[str, Outcome], folder: Path = RESULTS) -> Path:
    """Write all figures and what they were measured on; the file's name is the time (UTC)."""
    now = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{now:%Y-%m-%dT%H%M%SZ}.json"
    body = {"at": now.isoformat(timespec="seconds"), "machine": _machine(), "benchmarks": _plain(outcomes)}
    file.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    return file


def _plain(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    return {
        name: {
            "title": outcome.title,
            "conditions": outcome.conditions,
            "figures": [figure.to_dict() for figure in outcome.figures],
        }
        for name, outcome in outcomes.items()
    }


def _machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "commit": _commit(),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _commit() -> str:
    asked = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    found = subprocess.run(asked, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return found.stdout.strip()
