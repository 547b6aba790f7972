"""Steady submits from several threads, and the books of what became of them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.stack import Stack


class Load:
    """Submits from several threads until it is stopped; remembers what was accepted and how often it was refused."""

    def __init__(self, stack: Stack, **fields: Any) -> None:
        self._stack = stack
        self._fields = fields
        self.slowest = 0.0
        self.accepted: list[str] = []
        self.refused: list[int] = []
        self.unknown = 0
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(4)
        self._runs = [self._pool.submit(self._run) for _ in range(4)]

    def _run(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                body = {"model": "paced", "input": "one two three four five {{tokens=20}}", "background": True}
                answer = self._stack.ask("POST", "/v1/responses", {**body, **self._fields}, timeout=20)
            except OSError:
                self.unknown += 1
                continue
            self.slowest = max(self.slowest, time.monotonic() - began)
            if answer.status == 200:
                self.accepted.append(answer.json["id"])
            else:
                self.refused.append(answer.status)
            self._over.wait(0.05)

    def stop(self) -> None:
        self._over.set()
        for run in self._runs:
            run.result(60)
        self._pool.shutdown()
