"""What clients do while things fall over: submit until there is an answer, follow streams to their end.

A client keeps to the contract and to nothing else: a 200 is a job, an answered error is none and is never sent again,
and where no answer came at all the same submit goes out again under its Idempotency-Key.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.support.door import Door
from tests.support.events import Frame, counting, named

PATIENCE = 120.0  # seconds for one job, from its first submit to its end
_PAUSE = 0.2
_NO_ANSWER = (OSError, http.client.HTTPException)


class Kind(Enum):
    """How a client wants its answer."""

    WEBHOOK = "webhook"
    STREAM = "stream"


@dataclass
class Letter:
    """One job from its client's side.

    Attributes:
        marker: unique; stands in the prompt and is the Idempotency-Key.
        faults: what the client saw that must not be.
    """

    marker: str
    kind: Kind
    tokens: int
    tpot: int
    job_id: str = ""
    refused: bool = False
    events: list[Frame] = field(default_factory=list)
    resumes: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def answer(self) -> str:
        """What the paced server says to it; the marker is said to the engine by another role."""
        return counting(self.tokens)

    def body(self, hook: str) -> dict[str, Any]:
        prompt = f"{{{{tokens={self.tokens} tpot={self.tpot}}}}}"
        wanted: dict[str, Any] = {"webhook": {"url": hook}} if self.kind is Kind.WEBHOOK else {"stream": True}
        return {
            "model": "paced",
            "input": prompt,
            "instructions": self.marker,
            "background": True,
            "deadline_seconds": PATIENCE,
            **wanted,
        }


class Clients:
    """The clients of one round. Each letter that is refused is counted and written anew, so `jobs` jobs are accepted.

    Args:
        door: the API.
        hook: where webhooks go.
        chance: the round's own random numbers.
    """

    def __init__(self, door: Door, hook: str, chance: random.Random, name: str) -> None:
        self._door = door
        self._hook = hook
        self._chance = chance
        self._name = name
        self._count = 0
        self._lock = threading.Lock()
        self.accepted: list[Letter] = []
        self.refused: list[Letter] = []
        self.gave_up: list[Letter] = []

    def write(self, kind: Kind) -> Letter:
        with self._lock:
            self._count += 1
            marker = f"{self._name}-{self._count}"
            return Letter(marker, kind, self._chance.randint(20, 60), self._chance.choice((20, 40, 60)))

    def run(self, kind: Kind) -> None:
        """One client: gets a job accepted and, if it streams, reads it to the end."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            letter = self.write(kind)
            (self._submit if kind is Kind.WEBHOOK else self._submit_and_read)(letter, until)
            if not letter.refused:
                self._keep(letter)
                return
            with self._lock:
                self.refused.append(letter)
            time.sleep(_PAUSE)
        raise AssertionError(f"nothing was accepted within {PATIENCE:g} s")

    def _keep(self, letter: Letter) -> None:
        with self._lock:
            (self.accepted if letter.job_id else self.gave_up).append(letter)

    def _submit(self, letter: Letter, until: float) -> None:
        key = {"Idempotency-Key": letter.marker}
        unanswered = False
        while time.monotonic() < until:
            try:
                answer = self._door.ask("POST", "/v1/responses", letter.body(self._hook), timeout=15, **key)
            except _NO_ANSWER:
                unanswered = True  # it may be there or not; only the same key can say
                time.sleep(_PAUSE)
                continue
            if answer.status == 200:
                letter.job_id = answer.json["id"]
                return
            if not unanswered:
                letter.refused = True
                return
            time.sleep(_PAUSE)

    def _submit_and_read(self, letter: Letter, until: float) -> None:
        unanswered = False
        while time.monotonic() < until and not _ended(letter):
            try:
                status = self._read_on(letter)
            except _NO_ANSWER:
                unanswered = True
                status = 0
            if status not in {0, 200} and not letter.job_id and not unanswered:
                letter.refused = True
                return
            if status == 404:
                letter.faults.append("404 for an accepted job")
                return
            if not _ended(letter):
                letter.resumes += 1
                time.sleep(_PAUSE)

    def _read_on(self, letter: Letter) -> int:
        """One connection: the submit itself, or the stream from where it broke off. The HTTP status."""
        with self._opened(letter) as response:
            if response.status == 200:
                for frame in named(response):
                    _take(letter, frame)
            return response.status

    def _opened(self, letter: Letter) -> Any:
        if not letter.job_id:
            key = {"Idempotency-Key": letter.marker}
            return self._door.open("POST", "/v1/responses", letter.body(self._hook), timeout=60, **key)
        after = f"&starting_after={letter.events[-1].id}" if letter.events else ""
        return self._door.open("GET", f"/v1/responses/{letter.job_id}?stream=true{after}", timeout=60)


def _take(letter: Letter, frame: Frame) -> None:
    if frame.event == "error":
        return  # the API goes away; the stream is resumed
    number = int(frame.id)
    wanted = len(letter.events)
    if number == wanted:
        letter.events.append(frame)
    else:
        letter.faults.append(f"event {number} where {wanted} was due")
    if not letter.job_id:
        letter.job_id = frame.body["response"]["id"]


_ENDS = ("response.completed", "response.failed", "response.incomplete")


def _ended(letter: Letter) -> bool:
    return bool(letter.events) and letter.events[-1].event in _ENDS


def terminal_events(letter: Letter) -> list[str]:
    return [frame.event for frame in letter.events if frame.event in _ENDS]


def streamed_text(letter: Letter) -> str:
    return "".join(f.body["delta"] for f in letter.events if f.event == "response.output_text.delta")


def deck(jobs: int, chance: random.Random) -> Iterator[Kind]:
    """Kinds for a round: three webhooks to two streams, shuffled."""
    kinds = [Kind.WEBHOOK if n % 5 < 3 else Kind.STREAM for n in range(jobs)]
    chance.shuffle(kinds)
    return iter(kinds)
