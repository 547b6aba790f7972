"""Workers with a real vLLM are killed while they stream, at random tokens; in the answers no seam can be seen.

    CHAOS_ANSWERS=20 CHAOS_AT_ONCE=4 CHAOS_SEED=1 make chaos

Every answer is cut once: its worker dies by `kill -9`, and with it the engine. Another worker goes on with it by token
ids. At temperature 0 it says what the engine says undisturbed, but for tokens whose two best are as good as equal: to
read a text anew rounds otherwise than to have written it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chaos.questions import LEAST, Question, Undisturbed, draw, undisturbed
from tests.chaos.seams import CLOSE, Judge, Log, Stream
from tests.support import processes
from tests.support.demo_model import demo_model
from tests.support.stack import Stack
from tests.support.waiting import wait_until

ANSWERS = int(os.environ.get("CHAOS_ANSWERS", "20"))
AT_ONCE = int(os.environ.get("CHAOS_AT_ONCE", "4"))
SEED = int(os.environ.get("CHAOS_SEED", str(random.SystemRandom().randrange(1_000_000))))
EQUAL = 0.9  # of the answers, the least share that is what the engine says undisturbed
STAGGER = 30  # tokens of a round's first answer within which the others begin
LAST = 45  # the last token of an answer after which its worker may die; it has more
PATIENCE = 600.0  # seconds for anything on a busy machine

MODEL = "demo"
SLOTS = (0, 1)
CONFIG = """
[models.demo]
engine = "vllm"
path = "{path}"
instances = 2
max_concurrency = 8
context_length = 1024

[models.demo.cache]
policy = "off"

[jobs]
lease_seconds = 4
first_token_stall_seconds = 300
token_stall_seconds = 300

# Workers die by this test's hand alone, however busy the machine is.
[health]
probe_timeout_seconds = 120
"""

pytestmark = pytest.mark.chaos


@dataclass
class Tally:
    """What came of the answers that were cut; of the others only their faults are kept."""

    kills: int = 0
    cut: list[Stream] = field(default_factory=list)
    differ: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def equal(self) -> int:
        return len(self.cut) - len(self.differ)

    def lines(self) -> list[str]:
        seams = ", ".join(f"{stream.seam}/{len(stream.token_ids)}" for stream in self.cut)
        ends = Counter(stream.done.status for stream in self.cut)
        return [
            f"workers killed   {self.kills:>7}",
            f"answers cut      {len(self.cut):>7}   ({', '.join(f'{n} {end}' for end, n in sorted(ends.items()))})",
            f"equal            {self.equal:>7}   (to what the engine says undisturbed)",
            f"different        {len(self.differ):>7}",
            *(f"     {line}" for line in self.differ),
            f"faults           {len(self.faults):>7}",
            *(f"     {line}" for line in self.faults),
            f"seams            {seams}   (tokens said before/in all)",
        ]


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@pytest.mark.timeout(3600)
def test_answers_of_a_real_model_go_on_as_if_no_worker_had_been_killed() -> None:
    chance = random.Random(SEED)
    _say(f"\nseed {SEED}, {ANSWERS} answers, {AT_ONCE} at once (CHAOS_SEED, CHAOS_ANSWERS, CHAOS_AT_ONCE)")
    model = demo_model()
    stack = Stack(CONFIG.format(path=model), patience=PATIENCE)
    try:
        tally = Proof(stack, model, chance).run()
        folder = str(stack.folder)
        status = stack.stop()
        left = [processes.command_line(process) for process in processes.mentioning(folder)]
    except BaseException:
        _say("\n".join(line for line in stack.text().splitlines()[-200:] if "method=GET" not in line))
        stack.kill()
        raise
    _say("\n".join(["", *tally.lines(), f"processes left   {len(left):>7}"]))
    assert (status, left, tally.faults) == (0, [], [])
    assert len(tally.cut) == ANSWERS
    assert all(stream.attempts == 2 and 0 < stream.seam < len(stream.token_ids) for stream in tally.cut)
    assert tally.equal >= EQUAL * ANSWERS


class Proof:
    """Rounds of some answers each, in which one worker is killed, until every question's answer has been cut."""

    def __init__(self, stack: Stack, model: Path, chance: random.Random) -> None:
        self._stack = stack
        self._chance = chance
        self._log = Log(stack.redis())
        self._judge = Judge(model)
        self._client = stack.client(timeout=PATIENCE)
        self._whole: dict[int, Undisturbed] = {}
        self._tally = Tally()

    def run(self) -> Tally:
        self._settle()
        began = time.monotonic()
        left = draw(ANSWERS, self._chance)
        whole = undisturbed(left, MODEL, [self._stack.socket(MODEL, slot) for slot in SLOTS])
        self._whole = {question.number: answer for question, answer in zip(left, whole, strict=True)}
        _say(f"     asked undisturbed: {sum(w.output_tokens for w in whole)} tokens, {time.monotonic() - began:.0f} s")
        while left and self._tally.kills < 2 * ANSWERS:  # nearly each kill cuts the one that it was aimed at
            left = left[AT_ONCE:] + self._round(left[:AT_ONCE])
        return self._tally

    def _settle(self) -> None:
        def well() -> bool:
            instances = self._stack.pool(MODEL)
            return len(instances) == len(SLOTS) and all(i["state"] == "ready" and not i["in_flight"] for i in instances)

        wait_until(well, what="every instance is ready", limit=PATIENCE, every=0.2)

    def _round(self, questions: Sequence[Question]) -> list[Question]:
        """Ask, kill, wait, judge. Returns the questions whose answers were not cut, to be asked again."""
        began = time.monotonic()
        workers = {f"{MODEL}.{slot}": self._stack.pid_of(f"gpu.{MODEL}.{slot}") for slot in SLOTS}
        streams = [Stream(question) for question in questions]
        with ThreadPoolExecutor(len(streams)) as threads:
            starts = sorted(self._chance.randint(0, STAGGER) for _ in streams)
            reading = [
                threads.submit(self._read, stream, streams[0], start)
                for stream, start in zip(streams, starts, strict=True)
            ]
            killed, lengths = self._kill(streams, workers)
            for each in reading:
                each.result(PATIENCE)
        for stream in streams:
            self._log.find(stream)
            self._log.read(stream, lengths.get(stream.generation, 0))
        cut = [stream for stream in streams if stream.cut]
        self._settle()
        seams = ", ".join(f"{s.question.number} after {s.seam} of {len(s.token_ids)} tokens" for s in cut)
        _say(f"{self._tally.kills:>3}  {killed} killed: {seams or 'no answer cut'}; {time.monotonic() - began:.0f} s")
        self._keep(streams)
        return [stream.question for stream in streams if not stream.cut]

    def _read(self, stream: Stream, first: Stream, start: int) -> None:
        """Follow an answer to its end; it begins when the first one of the round has `start` tokens."""
        if stream is not first:
            wait_until(lambda: first.deltas >= start or first.ended, what="the first answer", limit=PATIENCE)
        question = stream.question
        for event in self._client.responses.create(
            model=MODEL,
            input=question.prompt,
            max_output_tokens=question.budget,
            temperature=0,
            background=True,
            stream=True,
            extra_body={"min_tokens": LEAST},
        ):
            stream.events.append(event)

    def _kill(self, streams: Sequence[Stream], workers: Mapping[str, int]) -> tuple[str, dict[str, int]]:
        """Kill the worker of one of the answers at a random token; its instance, and see `Log.lengths_at_death`."""
        aimed, at = self._chance.choice(streams), self._chance.randint(1, LAST)
        wait_until(lambda: aimed.deltas >= at, what="the token comes", limit=PATIENCE, every=0.01)
        begun = [stream for stream in streams if stream.deltas]
        for stream in begun:
            self._log.find(stream)
        instance = self._log.instance(aimed) or self._chance.choice(sorted(workers))
        fences = self._log.fences(stream for stream in begun if self._log.instance(stream) == instance)
        os.kill(workers[instance], signal.SIGKILL)
        self._tally.kills += 1
        return instance, self._log.lengths_at_death(fences)

    def _keep(self, streams: Sequence[Stream]) -> None:
        for stream in streams:
            whole, name = self._whole[stream.question.number], f"answer {stream.question.number}"
            faults = [f"{name}: {fault}" for fault in self._judge.faults(stream, whole)]
            if stream.cut:
                self._tally.cut.append(stream)
                faults += self._compare(stream, whole, name) if not faults else []
            for fault in faults:
                _say(f"     {fault}")
            self._tally.faults += faults

    def _compare(self, stream: Stream, whole: Undisturbed, name: str) -> list[str]:
        """Whether an answer is the undisturbed one; faults where it is another one that it must not be."""
        at = self._judge.first_difference(stream, whole)
        if at is None:
            return []
        gap = whole.gaps[at]
        self._tally.differ.append(f"{name}: from token {at} on, cut after {stream.seam}; the best two: {gap:.3f} apart")
        _say(f"     {self._tally.differ[-1]}")
        return [f"{name} differs where it must not"] if at < stream.seam or gap >= CLOSE else []
