"""What of a real model's throughput is left through the whole stack: tokens a second, against the same vLLM alone.

64 requests of about 100 prompt tokens, 16 at a time, streamed, with exactly 128 output tokens each (`ignore_eos`), go
through HTTP, queue and worker, and straight to the Unix socket of the very vLLM server that the stack runs, in turn.
No prompt is sent twice, so vLLM's prefix cache helps neither side.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from app import settings
from benchmarks.support import load
from benchmarks.support.figures import Outcome, over_rounds
from benchmarks.support.progress import Progress
from model_pool.quantize.demo import demo_folder_name
from tests.support.stack import KEY, Stack

MODEL = "demo"
REQUESTS = 64
AT_ONCE = 16
TOKENS = 128
ROUNDS = 3
QUESTION = (
    "Question {number} of a customer: my parcel number {number} was to arrive on Monday, but the page with its "
    "way says that it still waits in a warehouse two towns away. I am at home in the mornings only, and my neighbour, "
    "who could take it in, leaves for a journey on Friday. Can you send it to the post office at the station instead, "
    "and tell me until when it is kept there, what I must bring along, and whether somebody else may fetch it for me?"
)


def measure(progress: Progress, *, rounds: int = ROUNDS) -> Outcome:
    """Alone and whole in turn, in one stack with one vLLM."""
    folder = _model(progress)
    progress("vLLM starts")
    stack = Stack(_config(folder))
    try:
        alone_at = load.Target(uds=str(stack.socket(MODEL)))
        whole_at = load.Target(port=urlsplit(stack.url).port or 0, key=KEY)
        numbers = itertools.count(1)
        _tokens_a_second(alone_at, numbers, AT_ONCE)  # the first answers of a fresh vLLM are slower
        alone, whole = [], []
        for number in range(1, rounds + 1):
            progress(f"round {number} of {rounds}, vLLM alone")
            alone.append(_tokens_a_second(alone_at, numbers))
            progress(f"round {number} of {rounds}, through the stack")
            whole.append(_tokens_a_second(whole_at, numbers))
    finally:
        stack.stop()
    ratios = [ours / theirs for ours, theirs in zip(whole, alone, strict=True)]
    return Outcome(
        "A real model through the whole stack",
        (
            over_rounds("output tokens a second ÷ the same vLLM alone", ratios, at_least=0.92),
            over_rounds("output tokens through the stack", whole, unit="/s"),
            over_rounds("output tokens of vLLM alone", alone, unit="/s"),
        ),
        {"model": folder.name, "requests": REQUESTS, "at_once": AT_ONCE, "output_tokens": TOKENS, "engine": "vllm"},
    )


def _model(progress: Progress) -> Path:
    """The demo's 4-bit model, made first where there is none yet."""
    folder = settings.load().models_dir.expanduser() / "models" / demo_folder_name()
    if not folder.exists():
        progress("the 4-bit model is made")
        subprocess.run([sys.executable, "-m", "model_pool.quantize.demo", folder], check=True)
    return folder


def _config(folder: Path) -> str:
    return f"""
[models.{MODEL}]
engine = "vllm"
path = "{folder}"
max_concurrency = {AT_ONCE}
context_length = 1024
"""


def _tokens_a_second(target: load.Target, numbers: Iterator[int], requests: int = REQUESTS) -> float:
    bodies = [_body(number) for number in itertools.islice(numbers, requests)]
    answers = load.run(load.Plan(target, bodies, AT_ONCE))
    if any(answer.output_tokens != TOKENS for answer in answers):
        raise RuntimeError(f"not every answer has {TOKENS} tokens: {sorted({a.output_tokens for a in answers})}")
    begin = min(answer.sent for answer in answers)
    end = max(answer.sent + answer.ended for answer in answers)
    return requests * TOKENS / (end - begin)


def _body(number: int) -> dict[str, object]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION.format(number=number)}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
