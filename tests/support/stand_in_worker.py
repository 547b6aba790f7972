"""A worker for API tests: it claims, appends and commits through the very Lua scripts that real workers use.

What it does is said by the prompt: `tokens=5 pace=0.01` answers `t0 t1 …` at that pace, `fail=CODE` fails at once,
`fail_after=N` fails after so many tokens, `hold` answers nothing until it is told to go on or the job is lost.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from typing import Any

import redis

from app.jobs import events
from app.jobs.store import SCRIPTS
from app.lua import Scripts

LEASE_MS = 60_000


class StandInWorker:
    """Runs claimed generations, each in a thread, until `close`."""

    def __init__(self, client: redis.Redis, model: str = "m") -> None:
        self.client = client
        self.scripts = Scripts(client, SCRIPTS)
        self.model = model
        self.instance = f"{model}.0"
        self.lost: list[str] = []
        self.go_on = threading.Event()
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self._closed.set()
        self.go_on.set()
        for thread in self._threads:
            thread.join(10)

    def beat(self) -> None:
        now = int(time.time() * 1000)
        facts = {
            "id": self.instance, "model": self.model, "slot": 0, "revision": "r", "engine": "paced", "device": "cpu",
            "state": "ready", "breaker": "closed", "capacity": 64, "in_flight": 0, "started": 3, "finished": 2,
            "aborted": 1, "tokens_per_second": 1.5,
        }  # fmt: skip
        self.client.hset(f"ph:instance:{self.instance}", mapping=facts)
        self.client.zadd(f"ph:instances:{self.model}", {self.instance: now})
        if self.client.lpos(f"ph:ring:{self.model}", self.instance) is None:
            self.client.rpush(f"ph:ring:{self.model}", self.instance)

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                self.beat()
                held = self.scripts.call("claim", self.model, "w", self.instance, LEASE_MS, secrets.token_hex(8))
            except redis.RedisError:
                held = None
            if held:
                thread = threading.Thread(target=self._run, args=(held,), daemon=True)
                self._threads.append(thread)
                thread.start()
            else:
                self._closed.wait(0.005)

    def _run(self, held: list[Any]) -> None:
        run = _Run(self, held)
        try:
            run.answer()
        except _Lost:
            self.lost.append(run.generation)

    def rest(self) -> None:
        self._closed.wait(0.05)

    def wait_while_holding(self, generation: str, fence: int) -> None:
        while not self.go_on.is_set():
            if self.scripts.call("renew", LEASE_MS, generation, fence):
                raise _Lost
            self.go_on.wait(0.02)


class _Lost(Exception):
    """Nobody wants this generation any more."""


class _Run:
    def __init__(self, worker: StandInWorker, held: list[Any]) -> None:
        self.worker = worker
        self.generation, self.fence, self.sequence = str(held[0]), int(held[1]), int(held[3])
        self.request = json.loads(held[6])
        self.prompt = self.request["messages"][-1]["content"]
        self.text = ""

    def answer(self) -> None:
        if re.search(r"\bhold\b", self.prompt):
            self.worker.wait_while_holding(self.generation, self.fence)
        code = self._word("fail")
        if code:
            return self.end("failed", code=code)
        self.append(*events.OPENING)
        fail_after = int(self._word("fail_after") or -1)
        for number in range(int(self._word("tokens") or 3)):
            if number == fail_after:
                return self.end("failed", code="worker_lost")
            self.token(number)
        length = "length" in self.prompt
        return self.end("incomplete" if length else "completed", finish="length" if length else "stop")

    def _word(self, name: str) -> str | None:
        found = re.search(rf"\b{name}=([^ ]+)", self.prompt)
        return found[1] if found else None

    def token(self, number: int) -> None:
        if "hold_at=" in self.prompt and number == int(self._word("hold_at") or 0):
            self.worker.wait_while_holding(self.generation, self.fence)
        time.sleep(float(self._word("pace") or 0))
        text = (" " if number else "") + (self._word("say") or f"t{number}")
        self.text += text
        self.append(events.delta(text, [number]))

    def append(self, *batch: str) -> None:
        if not self._call("append", "", *batch):
            raise _Lost
        self.sequence += len(batch)

    def end(self, status: str, *, finish: str = "", code: str = "") -> None:
        usage = {"input_tokens": 5, "output_tokens": 7, "cached_tokens": 0, "reasoning_tokens": 0}
        result = {"text": self.text, "finish_reason": finish, "usage": usage, "tool_calls": []}
        log = [events.end(status, finish=finish or None, code=code or None)]
        if not code:
            log = [*events.CLOSING, *log]
        message = f"it ended as {code}" if code else ""
        facts = (status, "" if code else json.dumps(result), code, message, 5, 7, 0)
        self._call("commit", *facts, *log)

    def _call(self, script: str, *args: Any) -> Any:
        """One fenced write, tried until Redis answers."""
        while True:
            try:
                return self.worker.scripts.call(script, self.generation, self.fence, self.sequence, *args)
            except redis.RedisError:
                self.worker.rest()
