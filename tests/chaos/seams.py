"""Answers whose worker was killed while they streamed: where that was, and whether it can be seen in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from tokenizers import Tokenizer

from app.jobs import events
from tests.chaos.questions import LEAST, Question, Undisturbed
from tests.support.events import numbers, text
from tests.support.waiting import wait_until

CLOSE = 0.1  # two log-probabilities that are as near as this may change places after a seam
_TERMINAL = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
_HANDED_BACK = 60.0


@dataclass
class Stream:
    """One answer from its client's side.

    Attributes:
        seam: tokens that the log held of it when its worker was dead; 0: it was not cut.
        attempts: how often the stack began with it.
    """

    question: Question
    generation: str = ""
    events: list[Any] = field(default_factory=list)
    seam: int = 0
    token_ids: tuple[int, ...] = ()
    logged: str = ""
    attempts: int = 0

    @property
    def job_id(self) -> str:
        return str(self.events[0].response.id) if self.events else ""

    @property
    def deltas(self) -> int:
        return sum(event.type == "response.output_text.delta" for event in list(self.events))

    @property
    def ended(self) -> bool:
        return bool(self.events) and self.events[-1].type in _TERMINAL

    @property
    def cut(self) -> bool:
        """Whether its worker died in the middle of it, and another went on."""
        return self.attempts > 1 and 0 < self.seam < len(self.token_ids)

    @property
    def done(self) -> Any:
        """The response object of the last event."""
        return self.events[-1].response


class Log:
    """What the stack's Redis says of generations."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis: Any = client

    def find(self, stream: Stream) -> None:
        """Note the generation of a stream that has begun."""
        stream.generation = str(self._redis.hget(f"ph:job:{stream.job_id}", "gen"))

    def instance(self, stream: Stream) -> str:
        """The instance that runs it; empty when none does."""
        owner, instance = self._redis.hmget(f"ph:gen:{stream.generation}", "owner", "instance")
        return str(instance) if owner else ""

    def fences(self, streams: Iterable[Stream]) -> dict[str, str]:
        """The fencing token of each stream's run, by generation."""
        return {stream.generation: self._state(stream.generation)[0] for stream in streams}

    def lengths_at_death(self, fences: Mapping[str, str]) -> dict[str, int]:
        """Sequence numbers that a dead worker has used up, by generation: looked at until its lease is over."""
        lengths = dict.fromkeys(fences, 0)

        def handed_back() -> bool:
            states = {generation: self._state(generation) for generation in fences}
            held = {generation: length for generation, (fence, length) in states.items() if fence == fences[generation]}
            lengths.update(held)
            return not held

        wait_until(handed_back, what="the dead worker's lease is over", limit=_HANDED_BACK)
        return lengths

    def _state(self, generation: str) -> tuple[str, int]:
        fence, sequence = self._redis.hmget(f"ph:gen:{generation}", "fence", "seq")
        return str(fence), int(sequence)

    def read(self, stream: Stream, length: int) -> None:
        """Fill in what a stream that has ended has in the log; `length` from `lengths_at_death`."""
        found = events.from_stream(self._redis.xrange(f"ph:gen:{stream.generation}:log"))
        stream.token_ids = events.token_ids_of(found)
        stream.logged = events.text_of(found)
        stream.seam = len(events.token_ids_of(event for event in found if event.sequence < length))
        stream.attempts = int(self._redis.hget(f"ph:gen:{stream.generation}", "attempts"))


class Judge:
    """Holds streams against the undisturbed answers.

    Args:
        folder: the model's, for its tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._end = int(json.loads((folder / "generation_config.json").read_text())["eos_token_id"])

    def faults(self, stream: Stream, whole: Undisturbed) -> list[str]:
        """What must not be, in words; empty when all is well."""
        if not stream.ended or stream.done.usage is None:
            return [f"it ends as {stream.events[-1].type if stream.events else 'nothing'}"]
        return [*_faults_of_order(stream), *self._faults_of_text(stream), *_faults_of_usage(stream, whole)]

    def _faults_of_text(self, stream: Stream) -> list[str]:
        """The ids tell what the text must be: a gap, a repetition or half a character at the seam would show."""
        kept = text(stream.events)
        found = []
        if kept != stream.done.output_text:
            found.append("the final text is not what its deltas add up to")
        if kept != stream.logged:
            found.append("the stream is not what the log holds")
        if kept != self._tokenizer.decode(list(stream.token_ids), skip_special_tokens=True):
            found.append("the text is not that of its tokens")
        return found

    def first_difference(self, stream: Stream, whole: Undisturbed) -> int | None:
        """The first token that is another than in the undisturbed answer; None when all are the same."""
        ours = stream.token_ids + ((self._end,) if stream.done.status == "completed" else ())
        pairs = enumerate(zip(ours, whole.token_ids, strict=False))
        shorter = min(len(ours), len(whole.token_ids))
        at = next((n for n, (mine, theirs) in pairs if mine != theirs), shorter)
        return None if at == len(ours) == len(whole.token_ids) else at


def _faults_of_order(stream: Stream) -> list[str]:
    found = []
    if numbers(stream.events) != list(range(len(stream.events))):
        found.append("its sequence numbers have a gap or a repetition")
    ends = [event.type for event in stream.events if event.type in _TERMINAL]
    if ends not in (["response.completed"], ["response.incomplete"]):
        found.append(f"it ends as {', '.join(ends)}")
    whole_texts = [event.text for event in stream.events if event.type == "response.output_text.done"]
    if whole_texts != [text(stream.events)]:
        found.append("its `output_text.done` says something else than its deltas")
    return found


def _faults_of_usage(stream: Stream, whole: Undisturbed) -> list[str]:
    usage, question = stream.done.usage, stream.question
    found = []
    if usage.input_tokens != whole.prompt_tokens:
        found.append(f"{usage.input_tokens} input tokens are counted for {whole.prompt_tokens}")
    # The token that ends an answer is counted, as vLLM does, and has no text.
    tokens = len(stream.token_ids) + 1 if stream.done.status == "completed" else question.budget
    if usage.output_tokens != tokens or len(stream.token_ids) > question.budget:
        found.append(f"{usage.output_tokens} output tokens are counted for {tokens}")
    if usage.total_tokens != usage.input_tokens + usage.output_tokens:
        found.append(f"{usage.total_tokens} tokens are not {usage.input_tokens} and {usage.output_tokens}")
    if tokens < LEAST:
        found.append(f"it has {tokens} tokens where at least {LEAST} were asked for")
    return found
