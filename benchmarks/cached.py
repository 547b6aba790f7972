"""What the cache is worth in a burst: cached answers a second against a bare Flask app, and a stampede of one question.

A cached answer is still a durable job with an id and a log of its own; the bare app does one GET under the same
gunicorn settings. In the stampede 1,000 identical questions come at once to two API processes while the engine takes
500 ms.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from benchmarks.support import asking, bare_server
from benchmarks.support.asking import Asked, Questions
from benchmarks.support.figures import Figure, Outcome, over_rounds, percentile
from benchmarks.support.progress import Progress
from tests.support.stack import KEY, Stack

MODEL = "paced"
CLIENTS = 64
REQUESTS = 4000
STAMPEDE = 1000
ENGINE_SECONDS = 0.5
ROUNDS = 5
CONFIG = f"""
[models.{MODEL}]
engine = "paced"
max_concurrency = 64
"""
TWO_PROCESSES = CONFIG + "[api]\nprocesses = 2\n"


def measure(progress: Progress, *, rounds: int = ROUNDS) -> Outcome:
    """Cached answers first, the stampede on a stack with two API processes afterwards."""
    progress("cached answers")
    figures = _cached(rounds)
    progress("the stampede")
    figures += _stampede(rounds)
    return Outcome("Cached answers and a stampede", tuple(figures), {"clients": CLIENTS, "requests": REQUESTS})


def _cached(rounds: int) -> list[Figure]:
    stack = Stack(CONFIG)
    try:
        port = urlsplit(stack.url).port or 0
        _ask(port, "warm", 1, 1)
        with bare_server.running() as bare:
            turns = [(_ask(bare, "warm"), _ask(port, "warm")) for _ in range(rounds)]
    finally:
        stack.stop()
    ratios = [whole.rate / bare.rate for bare, whole in turns]
    return [
        over_rounds("cached answers a second ÷ bare Flask's", ratios, at_least=0.4),
        over_rounds("cached answers", [whole.rate for _, whole in turns], unit="/s"),
        over_rounds("cached answers, p99", [1000 * percentile(w.seconds, 0.99) for _, w in turns], unit="ms"),
    ]


def _stampede(rounds: int) -> list[Figure]:
    stack = Stack(TWO_PROCESSES)
    generations, slowest, cached = [], [], []
    try:
        port = urlsplit(stack.url).port or 0
        for number in range(rounds):
            before = stack.ended_generations(MODEL)
            question = f"{{{{ttft={ENGINE_SECONDS * 1000:.0f}}}}} all ask this {number}"
            slowest.append(max(_ask(port, question, STAMPEDE, STAMPEDE).seconds))
            generations.append(float(stack.ended_generations(MODEL) - before))
            cached.append(max(_ask(port, question, STAMPEDE, STAMPEDE).seconds))
    finally:
        stack.stop()
    over = [whole - 1.2 * ENGINE_SECONDS - again for whole, again in zip(slowest, cached, strict=True)]
    return [
        over_rounds("generations of a stampede of 1,000", generations, at_most=1),
        over_rounds("slowest answer, beyond 1.2 times the engine + 1,000 cached answers", over, unit="s", at_most=0),
        over_rounds("slowest answer of a stampede", slowest, unit="s"),
        over_rounds("slowest of 1,000 cached answers at once", cached, unit="s"),
    ]


def _ask(port: int, text: str, requests: int = REQUESTS, clients: int = CLIENTS) -> Asked:
    body = {"model": MODEL, "temperature": 0, "messages": [{"role": "user", "content": text}]}
    return asking.run(Questions([body] * requests, clients, port=port, key=KEY))
