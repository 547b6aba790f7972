"""A line with a crowd in it: short chats of many tenants and tiers, and the instances that they wait for.

Everything goes through the stores that the API and the workers use, wired as they wire them.
"""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import redis

from app.jobs.accepting import QueueCaps
from app.jobs.generation import CanonicalRequest, Dispatch, NewGeneration, new_generation_id
from app.jobs.job import Kind, NewJob, new_job_id
from app.jobs.records import generation_fields, job_fields
from app.jobs.store import SCRIPTS, JobStore
from app.settings import Settings
from benchmarks.support.worker import MODEL, settings_of
from model_pool.registry import Beat

CAPACITY = 16  # of each instance
TENANTS = 100
TIERS = ("priority", *["default"] * 6, *["flex"] * 3)
COST = 48  # of a short chat: a prompt of some 60 tokens, an answer of some 40
_TOGETHER = 100
_ROOM = 10_000_000  # the caps refuse at the door; here they must not
_SYSTEM = "You are the friendly help desk of a mail-order house. Answer briefly and in the customer's own language."
_QUESTION = "Hello, I ordered two lamps last week, order {}, and only one has come. Where is the other one?"


@contextmanager
def settings(redis_url: str) -> Iterator[Settings]:
    """The defaults, with caps and deadlines that let a hundred thousand wait."""
    with tempfile.TemporaryDirectory(prefix="ph-bench-") as folder:
        file = Path(folder) / "posthouse.toml"
        file.write_text(
            f'data_dir = "{folder}/data"\n[redis]\njobs_url = "{redis_url}"\n'
            f"[jobs]\nqueue_cap = {_ROOM}\ntenant_queue_share = 1\ndeadline_seconds = 86400\n"
            f'[models.{MODEL}]\nengine = "paced"\nmax_concurrency = {CAPACITY}\n'
        )
        yield settings_of(file)


class Crowd:
    """Chats that come one after another, each of the next tenant and of a tier by chance, the same ones at each run."""

    def __init__(self, policy: str = "round_robin") -> None:
        self._numbers = itertools.count()
        self._chance = random.Random(7)
        self._dispatch = Dispatch(policy)

    def next(self) -> tuple[NewJob, NewGeneration]:
        number = next(self._numbers)
        messages = [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": _QUESTION.format(100_000 + number)},
        ]
        job = NewJob(
            id=new_job_id(Kind.CHAT), kind=Kind.CHAT, tenant=f"tenant-{number % TENANTS}", key_id="key_0123456789",
            model=MODEL, tier=self._chance.choice(TIERS), deadline_seconds=86_400, retention_seconds=600, stream=True,
        )  # fmt: skip
        request = CanonicalRequest(messages, {"max_tokens": 256, "temperature": 0.7})
        return job, NewGeneration(new_generation_id(), request, COST, dispatch=self._dispatch)

    def enter(self, client: redis.Redis, count: int) -> None:
        """So many more stand in line, by as many submits, a hundred in a round trip."""
        store = _Filling(client, caps=QueueCaps(_ROOM, _ROOM), idempotency_seconds=60, submit_timeout=60)
        for begin in range(0, count, _TOGETHER):
            store.submit_all([self.next() for _ in range(min(_TOGETHER, count - begin))])


class _Filling(JobStore):
    """Makes the very calls of a submit, many in a round trip."""

    def submit_all(self, orders: Sequence[tuple[NewJob, NewGeneration]]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.script_load(SCRIPTS["submit"])
        for job, generation in orders:
            mine, facts = job_fields(job), json.dumps(self._facts(job, generation))
            theirs = generation_fields(job, generation)
            pipeline.evalsha(SCRIPTS.sha("submit"), 0, 0, facts, len(mine), *mine, *theirs)
        _, *replies = pipeline.execute()
        if any(reply[0] != "ok" for reply in replies):
            raise RuntimeError("not every submit was accepted")


def instance(slot: int) -> str:
    return f"{MODEL}.{slot}"


def beat(slot: int) -> Beat:
    """Of a healthy, idle instance."""
    return Beat(
        id=instance(slot), model=MODEL, slot=slot, revision="", engine="paced", device="cpu", state="ready",
        available=True, capacity=CAPACITY, in_flight=0, tokens_per_second=0, started=0, finished=0, aborted=0,
        pid=1000 + slot,
    )  # fmt: skip
