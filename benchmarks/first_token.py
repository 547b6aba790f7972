"""What the stack adds to the time of a token, with 64 streams open at once, against the paced server alone.

The paced engine gives its first token after 50 ms and one every 10 ms after it, 64 in all, so 64 streams are 6,400
tokens a second. Each of 64 clients sends one request after another, the clients' begins spread over one answer, so
that 64 streams are open all the time. The same load goes straight to the very server that the stack runs, in turn.
Added is the difference of the same quantile of both; a later token's time is its delay behind its own schedule.
A round where all 64 requests come at the same moment is reported beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.support import load
from benchmarks.support.exchange import Answer
from benchmarks.support.figures import Figure, Outcome, over_rounds, percentile
from benchmarks.support.progress import Progress
from tests.support.stack import KEY, Stack

MODEL = "paced"
STREAMS = 64
TOKENS = 64
TTFT, TPOT = 0.050, 0.010  # seconds
EACH = 6
ROUNDS = 3
CONFIG = f"""
[models.{MODEL}]
engine = "paced"
max_concurrency = {STREAMS}
options = {{ ttft_ms = {TTFT * 1000}, tpot_ms = {TPOT * 1000} }}
"""


@dataclass(frozen=True)
class Times:
    """Seconds of one load: to each first token, and each later token's delay behind its schedule."""

    first: list[float]
    later: list[float]


def measure(progress: Progress, *, rounds: int = ROUNDS) -> Outcome:
    """Alone and whole in turn, in one stack."""
    progress("the stack starts")
    stack = Stack(CONFIG)
    try:
        alone_at = load.Target(uds=str(stack.data / "run" / f"{MODEL}.0.sock"))
        whole_at = load.Target(port=urlsplit(stack.url).port or 0, key=KEY)
        pairs, bursts = [], []
        for number in range(1, rounds + 1):
            progress(f"round {number} of {rounds}, {STREAMS} streams all the time")
            pairs.append((_steady(alone_at), _steady(whole_at)))
            progress(f"round {number} of {rounds}, {STREAMS} streams at the same moment")
            bursts.append((_burst(alone_at), _burst(whole_at)))
    finally:
        stack.stop()
    return Outcome("Time that the stack adds to a token", (*_figures(pairs), *_of_bursts(bursts)), _conditions())


def _steady(target: load.Target) -> Times:
    plan = load.Plan(target, _bodies(STREAMS * EACH), STREAMS, spread=TTFT + (TOKENS - 1) * TPOT)
    answers = sorted(load.run(plan), key=lambda answer: answer.sent)
    return _times(answers[STREAMS:])  # while the clients begin there are fewer streams than said


def _burst(target: load.Target) -> Times:
    return _times(load.run(load.Plan(target, _bodies(STREAMS), STREAMS)))


def _bodies(count: int) -> list[dict[str, object]]:
    return [
        {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"{{{{tokens={TOKENS}}}}} where is order {number}"}],
            "max_tokens": TOKENS,
            "stream": True,
        }
        for number in range(count)
    ]


def _times(answers: Sequence[Answer]) -> Times:
    if any(len(answer.tokens) != TOKENS for answer in answers):
        raise RuntimeError(f"not every answer has {TOKENS} tokens: {sorted({len(a.tokens) for a in answers})}")
    later = [at - TTFT - n * TPOT for answer in answers for n, at in enumerate(answer.tokens) if n]
    return Times([answer.tokens[0] for answer in answers], later)


Pair = tuple[Times, Times]  # of the paced server alone, and through the whole stack


def _figures(pairs: Sequence[Pair]) -> tuple[Figure, ...]:
    return (
        over_rounds("first token, added, median", _added(pairs, "first", 0.5), unit="ms", at_most=10),
        over_rounds("first token, added, p99", _added(pairs, "first", 0.99), unit="ms", at_most=40),
        over_rounds("later tokens, added delay, median", _added(pairs, "later", 0.5), unit="ms"),
        over_rounds("later tokens, added delay, p99", _added(pairs, "later", 0.99), unit="ms", at_most=50),
        over_rounds("first token through the stack, median", _quantiles(pairs, "first", 0.5), unit="ms"),
    )


def _of_bursts(pairs: Sequence[Pair]) -> tuple[Figure, ...]:
    note = f"{STREAMS} requests at the same moment"
    return (
        over_rounds("first token of a burst, added, median", _added(pairs, "first", 0.5), unit="ms", note=note),
        over_rounds("first token of a burst, added, p99", _added(pairs, "first", 0.99), unit="ms", note=note),
    )


def _added(pairs: Sequence[Pair], which: str, share: float) -> list[float]:
    """Milliseconds between the same quantiles of both, for each round."""
    return [1000 * (_quantile(whole, which, share) - _quantile(alone, which, share)) for alone, whole in pairs]


def _quantiles(pairs: Sequence[Pair], which: str, share: float) -> list[float]:
    return [1000 * _quantile(whole, which, share) for _, whole in pairs]


def _quantile(times: Times, which: str, share: float) -> float:
    return percentile(getattr(times, which), share)


def _conditions() -> dict[str, object]:
    return {
        "streams": STREAMS,
        "tokens": TOKENS,
        "ttft_ms": 1000 * TTFT,
        "tpot_ms": 1000 * TPOT,
        "requests_each": EACH,
        "endpoint": "/v1/chat/completions",
    }
