"""A `posthouse up` of the demo's own in a temporary folder: started, listened to, stopped, looked for afterwards."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import psutil

from app import settings
from app.demo import DemoFailedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CONFIG = """\
[webhooks]
allow_hosts = ["127.0.0.1"]   # the receiver of this demo
"""
# How vLLM and other engines say which 4-bit kernel runs.
_KERNEL = re.compile(r"\w*(wna16|gptq|marlin|exllama|awq)\w*(kernel|method)", re.IGNORECASE)
_STOP_SECONDS = 120.0


class DemoStack:
    """The stack as a child process; its lines are kept and shown to `hear` as they come."""

    def __init__(self, folder: Path, engine: str | None, hear: Callable[[str], None]) -> None:
        self.key = f"ph_demo_{secrets.token_urlsafe(24)}"
        self.lines: list[str] = []
        self.url = ""
        self._hear = hear
        self._ready = threading.Event()
        config = folder / "posthouse.toml"
        config.write_text(_CONFIG)
        arguments = ["--config", str(config), "--data", str(folder / "data"), "--port", "0"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "up", *arguments, *(["--engine", engine] if engine else [])],
            env=settings.process_environment({"POSTHOUSE_API__DEV_KEY": self.key, "PYTHONUNBUFFERED": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,  # a terminal's Ctrl-C reaches the demo, which then stops the stack once
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait_ready(self) -> None:
        """Return when the stack serves requests.

        Raises:
            DemoFailedError: it ended instead.
        """
        self._ready.wait()
        if not self.url:
            raise DemoFailedError(
                "the stack ended before it was ready; its last lines:\n" + "\n".join(self.lines[-30:])
            )

    def kernel_line(self) -> str | None:
        """The engine's own log line that names the kernel of the quantised weights; None if it never said so."""
        return next((line for line in self.lines if line.startswith("gpu.") and _KERNEL.search(line)), None)

    def stop(self) -> list[psutil.Process]:
        """Stop the stack as Ctrl-C does; returns processes that are still there afterwards, which should be none."""
        family = self._family()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return psutil.wait_procs(family, timeout=5)[1]

    def _family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 -- we asked for a pipe
        for raw in self._process.stdout:
            line = raw.rstrip("\n")
            self.lines.append(line)
            if line.startswith("ready "):
                self.url = line.removeprefix("ready ")
                self._ready.set()
            self._hear(line)
        self._ready.set()
