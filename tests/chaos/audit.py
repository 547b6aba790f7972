"""After a round: what became of every letter, by the API, by Redis' own records and by what the receiver got."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis

from tests.chaos.letters import Kind, Letter, streamed_text, terminal_events
from tests.support.receiver import Receiver
from tests.support.stack import Stack
from tests.support.waiting import wait_until

_TERMINAL = {"completed", "failed", "cancelled", "incomplete"}


@dataclass
class Tally:
    """The count of everything; `faults` is empty when all promises were kept."""

    accepted: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    doubled: int = 0
    lost: int = 0
    refused: int = 0
    refused_but_ran: int = 0
    webhook_jobs: int = 0
    webhook_ids: int = 0
    webhook_deliveries: int = 0
    streams: int = 0
    resumes: int = 0
    retried: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in (
            *("accepted", "doubled", "lost", "refused", "refused_but_ran", "webhook_jobs", "webhook_ids"),
            *("webhook_deliveries", "streams", "resumes", "retried"),
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.ended += other.ended
        self.faults += other.faults

    def lines(self) -> list[str]:
        ended = ", ".join(f"{count} {status}" for status, count in sorted(self.ended.items()))
        return [
            f"accepted         {self.accepted:>7}",
            f"ended            {sum(self.ended.values()):>7}   ({ended})",
            f"doubled          {self.doubled:>7}",
            f"lost             {self.lost:>7}",
            f"refused          {self.refused:>7}",
            f"refused but ran  {self.refused_but_ran:>7}",
            f"webhook jobs     {self.webhook_jobs:>7}   ({self.webhook_ids} ids, {self.webhook_deliveries} deliveries)",
            f"streams          {self.streams:>7}   ({self.resumes} resumes)",
            f"second attempts  {self.retried:>7}",
        ]


class Audit:
    """Looks a round's letters up. Remembers every job, so that later rounds can see whether an end was final."""

    def __init__(self, stack: Stack, receiver: Receiver) -> None:
        self._stack = stack
        self._receiver = receiver
        self._redis: redis.Redis = stack.redis()
        self.final: dict[str, str] = {}

    def round(self, accepted: Sequence[Letter], refused: Iterable[Letter], limit: float) -> Tally:
        """Wait until every accepted job has ended and its webhook has come, then judge. Waits `limit` s at the most."""
        tally = Tally(accepted=len(accepted))
        for letter in accepted:
            self._judge(letter, tally, limit)
        self._webhooks([letter for letter in accepted if letter.kind is Kind.WEBHOOK], tally, limit)
        self._idle(tally, limit)
        refused = list(refused)
        tally.refused = len(refused)
        self._refused(refused, tally)
        return tally

    def finals_still_hold(self, tally: Tally) -> None:
        """No job has changed its terminal state since it was judged."""
        for job_id, status in self.final.items():
            now = self._stack.job(job_id)["status"]
            if now != status:
                tally.faults.append(f"{job_id} was {status} and is {now} now")

    def _judge(self, letter: Letter, tally: Tally, limit: float) -> None:
        job = self._ended(letter, limit)
        if job is None:
            tally.lost += 1
            tally.faults.append(f"{letter.marker} ({letter.job_id}) was lost")
            return
        status = job["status"]
        tally.ended[status] += 1
        tally.retried += job["attempts"] > 1
        self.final[letter.job_id] = status
        faults = [*letter.faults, *self._faults_of_log(letter), *_faults_of_answer(letter, job, self._stack)]
        if letter.kind is Kind.STREAM:
            tally.streams += 1
            tally.resumes += letter.resumes
            faults += _faults_of_stream(letter, status)
        tally.doubled += any("ends" in fault for fault in faults)
        tally.faults += [f"{letter.marker} ({letter.job_id}, {status}): {fault}" for fault in faults]

    def _ended(self, letter: Letter, limit: float) -> dict[str, Any] | None:
        def look() -> Any:
            status, body = self._stack.get(f"/v1/responses/{letter.job_id}")
            return (status == 404 and "gone") or (status == 200 and body["status"] in _TERMINAL and body)

        try:
            found = wait_until(look, what=f"{letter.marker} ends", limit=limit, every=0.2)
        except AssertionError:
            return None
        return None if found == "gone" else dict(found)

    def _faults_of_log(self, letter: Letter) -> list[str]:
        generation = self._redis.hget(f"ph:job:{letter.job_id}", "gen")
        entries: Any = self._redis.xrange(f"ph:gen:{generation}:log")
        numbers = [int(entry.split("-")[0]) - 1 for entry, _ in entries]
        kinds = [json.loads(fields["e"])["k"] for _, fields in entries]
        faults = []
        if numbers != list(range(len(numbers))):
            faults.append("its log has a gap")
        if kinds.count("end") != 1 or kinds[-1] != "end":
            faults.append(f"its log has {kinds.count('end')} ends")
        if kinds.count("in_progress") > 1:
            faults.append("it began twice")
        return faults

    def _webhooks(self, letters: Sequence[Letter], tally: Tally, limit: float) -> None:
        wanted = {letter.job_id for letter in letters}
        try:
            wait_until(lambda: wanted <= set(self._received()), what="all webhooks", limit=limit, every=0.2)
            wait_until(lambda: not self._redis.exists("ph:outbox", "ph:deliveries:due"), what="none due", limit=limit)
        except AssertionError as error:
            tally.faults.append(f"{len(wanted - set(self._received()))} webhooks are missing: {error}")
        received = self._received()
        tally.webhook_jobs = len(letters)
        for letter in letters:
            ids = received.get(letter.job_id, [])
            tally.webhook_ids += len(set(ids))
            tally.webhook_deliveries += len(ids)
            if len(set(ids)) > 1:
                tally.doubled += 1
                tally.faults.append(f"{letter.marker} has {len(set(ids))} webhook ids")

    def _received(self) -> dict[str, list[str]]:
        """Job id to the webhook ids that came for it, one per delivery."""
        found: dict[str, list[str]] = defaultdict(list)
        for got in list(self._receiver.received):
            found[json.loads(got.body)["data"]["id"]].append(got.headers["webhook-id"])
        return found

    def _idle(self, tally: Tally, limit: float) -> None:
        """Nothing runs for ever: no generation is held, none waits, and no engine works for nobody."""

        def idle() -> bool:
            return not self._redis.exists("ph:running", "ph:line:paced") and not any(
                instance["in_flight"] for instance in self._stack.pool()
            )

        try:
            wait_until(idle, what="nothing runs any more", limit=limit, every=0.2)
        except AssertionError as error:
            tally.faults.append(f"{error}: {self._redis.zrange('ph:running', 0, -1)}, {self._stack.pool()}")

    def _refused(self, refused: Sequence[Letter], tally: Tally) -> None:
        """A submit that was answered with an error has left no job, and nothing of it ever ran."""
        markers = {letter.marker for letter in refused}
        if not markers:
            return
        for key in self._redis.scan_iter("ph:gen:*", count=1000, _type="hash"):
            request, started = self._redis.hmget(key, "request", "started_at")
            if started and any(f'"{marker}"' in request for marker in markers):
                tally.refused_but_ran += 1
                tally.faults.append(f"{key} was refused and ran")
        for key in self._redis.scan_iter("ph:job:*", count=1000, _type="hash"):
            if any(f'"{marker}"' in (self._redis.hget(key, "echo") or "") for marker in markers):
                tally.faults.append(f"{key} was refused and is there")


def _faults_of_answer(letter: Letter, job: dict[str, Any], stack: Stack) -> list[str]:
    if job["status"] != "completed":
        return []
    said = stack.text_of(job)
    faults = [] if said == letter.answer else [f"its answer is {said[:80]!r}…"]
    if job["usage"]["output_tokens"] != letter.tokens:
        faults.append(f"{job['usage']['output_tokens']} tokens are counted for {letter.tokens}")
    return faults


def _faults_of_stream(letter: Letter, status: str) -> list[str]:
    ends = terminal_events(letter)
    faults = [] if len(ends) == 1 else [f"its stream has {len(ends)} ends"]
    if status == "completed" and streamed_text(letter) != letter.answer:
        faults.append(f"its stream said {streamed_text(letter)[:80]!r}…")
    return faults
