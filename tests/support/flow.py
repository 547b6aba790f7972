"""Callers that ask one short question after the other, whatever operators do meanwhile."""

from __future__ import annotations

import concurrent.futures
import threading

from tests.support.stack import Stack
from tests.support.waiting import wait_until

CALLERS = 4


class Flow:
    """Asks until it is told to stop; `end` raises what any caller met."""

    def __init__(self, stack: Stack, model: str = "paced") -> None:
        self._client = stack.client()
        self._model = model
        self._over = threading.Event()
        self.answers: list[str] = []
        self._pool = concurrent.futures.ThreadPoolExecutor(CALLERS)
        self._callers = [self._pool.submit(self._ask, number) for number in range(CALLERS)]

    def _ask(self, caller: int) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            text = f"{{{{tokens=10 tpot=10}}}} caller {caller} {number}"
            made = self._client.chat.completions.create(model=self._model, messages=[{"role": "user", "content": text}])
            self.answers.append(str(made.choices[0].message.content))

    def more(self, count: int) -> None:
        goal = len(self.answers) + count
        wait_until(lambda: len(self.answers) >= goal or self._failed(), what=f"{count} more answers")

    def _failed(self) -> bool:
        return any(c.done() for c in self._callers)

    def end(self) -> None:
        """Raises what any caller met."""
        self._over.set()
        for caller in self._callers:
            caller.result(60)
