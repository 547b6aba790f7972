"""What the demo shows: headings, what is going on with the seconds that it takes, answers as they come."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEARTBEAT_SECONDS = 5.0
_SHOWN_ROLES = ("up", "quantize")
_MODEL_ROLE = "gpu."


class Stage:
    """A spinner on a terminal; elsewhere a line every few seconds, so that nobody thinks it hangs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""
        self._shown = 0.0

    def title(self, text: str) -> None:
        self._console.print(f"\n[bold cyan]{escape(text)}[/]")

    def say(self, text: str, style: str = "") -> None:
        self._console.print(escape(text), style=style or None, highlight=False, soft_wrap=True)

    def part(self, text: str) -> None:
        """A piece of an answer, without a line end."""
        self._console.print(escape(text), end="", highlight=False, soft_wrap=True)

    def hear(self, line: str) -> None:
        """A line of the stack: the supervisor's and the quantiser's are shown, the model's kept for the heartbeat."""
        role = line.split("|", 1)[0].strip()
        if role in _SHOWN_ROLES:
            self._shown = time.monotonic()
            self.say(f"  {line}", style="dim")
        if role.startswith(_MODEL_ROLE):
            self._last = line

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Show that something takes its time."""
        started, done = time.monotonic(), threading.Event()
        with self._console.status(escape(text)) as status:

            def beat() -> None:
                pause = 0.5 if self._console.is_terminal else _HEARTBEAT_SECONDS
                while not done.wait(pause):
                    seconds = f"{time.monotonic() - started:.0f} s"
                    status.update(f"{escape(text)} [dim]{seconds}   {escape(self._last[:90])}[/]")
                    quiet = time.monotonic() - self._shown > _HEARTBEAT_SECONDS
                    if quiet and not self._console.is_terminal:
                        self.say(f"  … {text}, {seconds}   {self._last[:120]}", style="dim")

            thread = threading.Thread(target=beat, daemon=True)
            thread.start()
            try:
                yield
            finally:
                done.set()
                thread.join()
        self.say(f"  {text}: {time.monotonic() - started:.1f} s", style="green")
