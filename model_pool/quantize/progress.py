"""How a build tells where it is, and the two ways to show it: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

# Called with the step's name and how much of that step is done, from 0 to 1. A new name ends the step before it.
Report = Callable[[str, float], None]

_LINES = 10  # for each step, besides its first


class BarDisplay:
    """One rich progress bar a step; finished steps stay on the screen with the time they took."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._step = ""
        self._task: TaskID | None = None

    def __call__(self, step: str, done: float) -> None:
        if step != self._step:
            self.finish()
            self._step, self._task = step, self._progress.add_task(step, total=1.0)
        if self._task is not None:
            self._progress.update(self._task, completed=done)

    def finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=1.0)
            self._progress.stop_task(self._task)


class LineDisplay:
    """One line at the start of a step and one for each further tenth of it, with the seconds since the beginning.

    Args:
        write: takes one finished line.
        clock: seconds from any fixed point.
    """

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._began = clock()
        self._step = ""
        self._shown = 0

    def __call__(self, step: str, done: float) -> None:
        tenths = int(done * _LINES + 1e-9)
        if step == self._step and tenths <= self._shown:
            return
        self._step, self._shown = step, tenths
        self._write(f"[{self._clock() - self._began:5.0f} s] {step}" + (f" {tenths * 10}%" if tenths else ""))


@contextmanager
def shown_on(console: Console) -> Iterator[Report]:
    """The display that suits the console: a live bar on a terminal, plain lines in a file or a pipe."""
    if not console.is_terminal:
        yield LineDisplay(lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
        return
    columns = (
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description:<36}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        display = BarDisplay(progress)
        yield display
        display.finish()
