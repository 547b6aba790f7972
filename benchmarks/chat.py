"""Waiting chat completions a second, against the paced server alone and against a bare Flask app with one Redis GET.

Every question is another one, the engine costs nothing, two instances run. Each chat is a durable job, a place in line,
a Celery task, a stream from the engine, a log and a commit; the bare app does one GET. Same gunicorn settings, same
load, in turn.
"""

from __future__ import annotations

import itertools
from urllib.parse import urlsplit

from benchmarks.support import asking, bare_server
from benchmarks.support.asking import Asked, Questions
from benchmarks.support.figures import Figure, Outcome, over_rounds, percentile
from benchmarks.support.progress import Progress
from tests.support.stack import KEY, Stack

MODEL = "paced"
CLIENTS = (1, 16, 64)
REQUESTS = {1: 300, 16: 1200, 64: 1200}
ROUNDS = 3
CONFIG = f"""
[models.{MODEL}]
engine = "paced"
instances = 2
max_concurrency = 64
options = {{ ttft_ms = 0, tpot_ms = 0 }}
"""
_numbers = itertools.count()


def measure(progress: Progress, *, rounds: int = ROUNDS) -> Outcome:
    """Bare, alone and whole in turn, at each number of clients."""
    progress("the stack starts")
    stack = Stack(CONFIG)
    figures: list[Figure] = []
    try:
        port, socket = urlsplit(stack.url).port or 0, str(stack.data / "run" / f"{MODEL}.0.sock")
        with bare_server.running() as bare_port:
            for clients in CLIENTS:
                progress(f"{clients} at once")
                turns = [
                    (_ask(clients, port=bare_port), _ask(clients, uds=socket), _ask(clients, port=port, key=KEY))
                    for _ in range(rounds)
                ]
                figures += _figures(clients, turns)
    finally:
        stack.stop()
    return Outcome("Waiting chats a second", tuple(figures), {"requests": REQUESTS, "instances": 2})


def _ask(clients: int, *, port: int = 0, uds: str = "", key: str = "") -> Asked:
    bodies = [
        {"model": MODEL, "messages": [{"role": "user", "content": f"where is order {next(_numbers)}"}]}
        for _ in range(REQUESTS[clients])
    ]
    return asking.run(Questions(bodies, clients, port=port, uds=uds, key=key))


def _figures(clients: int, turns: list[tuple[Asked, Asked, Asked]]) -> list[Figure]:
    at = f"{clients} at once"
    to_bare = [whole.rate / bare.rate for bare, _, whole in turns]
    judged = {"at_least": 0.10} if clients == max(CLIENTS) else {}
    return [
        over_rounds(f"{at}: chats a second ÷ bare Flask's answers a second", to_bare, **judged),
        over_rounds(
            f"{at}: chats a second ÷ the paced server's", [whole.rate / alone.rate for _, alone, whole in turns]
        ),
        over_rounds(f"{at}: chats", [whole.rate for _, _, whole in turns], unit="/s"),
        over_rounds(f"{at}: median", [1000 * percentile(whole.seconds, 0.5) for _, _, whole in turns], unit="ms"),
        over_rounds(f"{at}: p99", [1000 * percentile(whole.seconds, 0.99) for _, _, whole in turns], unit="ms"),
    ]
