"""Whoever watches a build sees its steps: as bars on a terminal, as a few lines in a log."""

from __future__ import annotations

import io

from rich.console import Console

from model_pool.quantize.progress import LineDisplay, shown_on


def test_lines_for_each_step_and_each_tenth_of_it():
    lines: list[str] = []
    times = iter([100.0, 100.0, 101.0, 102.0, 112.4])
    display = LineDisplay(lines.append, lambda: next(times))

    for step, done in [("unpack", 0.0), ("quantise", 0.0), ("quantise", 0.05), ("quantise", 1 / 3), ("quantise", 0.38)]:
        display(step, done)
    display("quantise", 1.0)
    assert lines == ["[    0 s] unpack", "[    1 s] quantise", "[    2 s] quantise 30%", "[   12 s] quantise 100%"]


def test_thirty_layers_give_ten_lines_after_the_first():
    lines: list[str] = []
    display = LineDisplay(lines.append, lambda: 0.0)

    for layer in range(31):
        display("quantise", layer / 30)
    assert [line.split()[-1] for line in lines] == ["quantise", *(f"{tenth}0%" for tenth in range(1, 11))]


def test_a_pipe_gets_plain_lines():
    out = io.StringIO()

    with shown_on(Console(file=out)) as report:
        report("Unpack [the] model", 0.0)
    assert out.getvalue() == "[    0 s] Unpack [the] model\n"


def test_a_terminal_gets_a_finished_bar_for_each_step():
    out = io.StringIO()

    with shown_on(Console(file=out, force_terminal=True, width=100)) as report:
        report("Unpack", 0.0)
        report("Quantise", 0.5)
    last = [line for line in out.getvalue().splitlines() if "%" in line][-2:]
    assert "Unpack" in last[0]
    assert "Quantise" in last[1]
    assert all("100%" in line for line in last)
