"""Waiting chat completions a second, against the paced server alone and against a bare Flask app with one Redis GET.

Every question is another one, the engine costs nothing, two instances run. Each chat is a durable job, a place in line,
a Celery task, a stream from the engine, a log and a commit; the bare app does one GET. Same gunicorn settings, same
load, in turn. How much of that a durable queue alone takes is told by bare Celery: two workers of the same settings
that drain no-op tasks while one process publishes them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.support import asking, bare_server, bare_tasks
from benchmarks.support.asking import Asked, Questions
from benchmarks.support.figures import Figure, Outcome, over_rounds, percentile
from benchmarks.support.progress import Progress
from tests.support.stack import KEY, Stack

MODEL = "paced"
CLIENTS = (1, 16, 64)
REQUESTS = {1: 300, 16: 1200, 64: 1200}
ROUNDS = 3
TASKS = 2000
OF_FLASK, OF_CELERY = 0.10, 0.45  # the lower of the two demands is the target
CONFIG = f"""
[models.{MODEL}]
engine = "paced"
instances = 2
max_concurrency = 64
options = {{ ttft_ms = 0, tpot_ms = 0 }}
"""
_numbers = itertools.count()


@dataclass(frozen=True)
class Turn:
    """One round: answers a second of the bare app, of the engine's server alone, of the stack; bare Celery's tasks."""

    bare: Asked
    alone: Asked
    whole: Asked
    tasks: float

    @property
    def demand(self) -> float:
        """Chats a second that the stack has to reach in this round."""
        return min(OF_FLASK * self.bare.rate, OF_CELERY * self.tasks)


def measure(progress: Progress, *, rounds: int = ROUNDS) -> Outcome:
    """Bare, alone and whole in turn, at each number of clients; bare Celery beside the most clients."""
    progress("the stack starts")
    stack = Stack(CONFIG)
    figures: list[Figure] = []
    try:
        port, socket = urlsplit(stack.url).port or 0, str(stack.data / "run" / f"{MODEL}.0.sock")
        with bare_server.running() as bare_port:
            for clients in CLIENTS:
                progress(f"{clients} at once")
                figures += _figures(clients, [_turn(clients, bare_port, socket, port) for _ in range(rounds)])
    finally:
        stack.stop()
    return Outcome("Waiting chats a second", tuple(figures), {"requests": REQUESTS, "instances": 2, "tasks": TASKS})


def _turn(clients: int, bare_port: int, socket: str, port: int) -> Turn:
    return Turn(
        bare=_ask(clients, port=bare_port),
        alone=_ask(clients, uds=socket),
        whole=_ask(clients, port=port, key=KEY),
        tasks=_tasks() if clients == max(CLIENTS) else math.nan,
    )


def _tasks() -> float:
    return bare_tasks.published_and_drained(TASKS, workers=2, concurrency=64)


def _ask(clients: int, *, port: int = 0, uds: str = "", key: str = "") -> Asked:
    bodies = [
        {"model": MODEL, "messages": [{"role": "user", "content": f"where is order {next(_numbers)}"}]}
        for _ in range(REQUESTS[clients])
    ]
    return asking.run(Questions(bodies, clients, port=port, uds=uds, key=key))


def _figures(clients: int, turns: list[Turn]) -> list[Figure]:
    at = f"{clients} at once"
    found = [
        over_rounds(f"{at}: chats a second ÷ bare Flask's answers", [t.whole.rate / t.bare.rate for t in turns]),
        over_rounds(f"{at}: chats a second ÷ the paced server's", [t.whole.rate / t.alone.rate for t in turns]),
        over_rounds(f"{at}: chats", [t.whole.rate for t in turns], unit="/s"),
        over_rounds(f"{at}: median", [1000 * percentile(t.whole.seconds, 0.5) for t in turns], unit="ms"),
        over_rounds(f"{at}: p99", [1000 * percentile(t.whole.seconds, 0.99) for t in turns], unit="ms"),
    ]
    if clients == max(CLIENTS):
        found += [
            over_rounds(f"{at}: chats a second ÷ bare Celery's tasks", [t.whole.rate / t.tasks for t in turns]),
            over_rounds(
                f"{at}: chats a second ÷ the lower of {OF_FLASK:g} of bare Flask and {OF_CELERY:g} of bare Celery",
                [t.whole.rate / t.demand for t in turns],
                at_least=1,
            ),
        ]
    return found
