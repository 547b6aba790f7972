"""Any history of submits, claims, fresh and stale writes, hand-backs, cancels, voids and reaps keeps the books.

What must hold after every step: each generation has at most one end, its log has no gap, the line and the running
set hold exactly those that wait and run, and the counts of waiting work add up.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import fakeredis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from app.errors import QueueFull
from app.jobs import events
from app.jobs.accepting import QueueCaps
from app.jobs.job import Status, Webhook, may_become
from app.jobs.store import SCRIPTS, JobStore
from app.lua import Scripts
from tests.support.letters import letter

TERMINAL = {"completed", "failed", "cancelled", "incomplete"}
_tasks = itertools.count()


class Books(RuleBasedStateMachine):
    jobs = Bundle("jobs")
    claims = Bundle("claims")

    @initialize()
    def open_the_books(self) -> None:
        self.redis = fakeredis.FakeRedis(decode_responses=True)
        self.store = JobStore(self.redis, caps=QueueCaps(6, 4), idempotency_seconds=60, submit_timeout=5)
        self.scripts = Scripts(self.redis, SCRIPTS)
        self.statuses: dict[str, Status] = {}
        self.generations: set[str] = set()

    @rule(
        target=jobs,
        tenant=st.sampled_from(["a", "b"]),
        tier=st.sampled_from(["priority", "default", "flex"]),
        hook=st.booleans(),
        continuable=st.booleans(),
    )
    def submit(self, tenant: str, tier: str, hook: bool, continuable: bool) -> Any:
        params = {} if continuable else {"tools": [1]}
        webhook = Webhook("https://example.com/") if hook else None
        job, generation = letter(tenant=tenant, tier=tier, webhook=webhook, params=params)
        try:
            self.store.submit(job, generation)
        except QueueFull:
            return multiple()
        self.generations.add(generation.id)
        self.statuses[job.id] = Status.QUEUED
        return job.id

    @rule(target=claims, lease=st.sampled_from([0, 10_000]))
    def claim(self, lease: int) -> Any:
        held = self.scripts.call("claim", "m", "w", "m.0", lease, f"t{next(_tasks)}")
        return (held[0], held[1], held[3]) if held else multiple()

    def write(self, held: tuple[str, int, int], name: str, *rest: Any) -> None:
        """Call a script with a token; if the token is stale, nothing at all may change."""
        key = f"ph:gen:{held[0]}"
        fence, owner = self.redis.hmget(key, "fence", "owner")
        stale = fence != str(held[1]) or owner == ""
        before = self.everything()
        self.scripts.call(name, held[0], held[1], *rest)
        if stale:
            assert self.everything() == before, (name, held)

    def everything(self) -> dict[str, Any]:
        logs = {g: len(self.store.log(g)) for g in self.generations}
        hashes = {g: self.redis.hgetall(f"ph:gen:{g}") for g in self.generations}
        places = [self.redis.zrange(k, 0, -1, withscores=True) for k in ("ph:line:m", "ph:running", "ph:outbox")]
        return {"logs": logs, "hashes": hashes, "places": places, "stats": self.store.stats("m")}

    @rule(held=claims, text=st.sampled_from(["x", "yz"]))
    def append(self, held: tuple[str, int, int], text: str) -> None:
        sequence = self.redis.hget(f"ph:gen:{held[0]}", "seq") or held[2]
        self.write(held, "append", sequence, "", events.delta(text))

    @rule(held=claims, status=st.sampled_from(["completed", "incomplete", "failed"]))
    def commit(self, held: tuple[str, int, int], status: str) -> None:
        sequence = self.redis.hget(f"ph:gen:{held[0]}", "seq") or held[2]
        result = json.dumps({"text": "", "finish_reason": "stop", "usage": {}, "tool_calls": []})
        self.write(held, "commit", sequence, status, result, "", "", 1, 1, 1, events.end(status))

    @rule(held=claims, counted=st.booleans())
    def release(self, held: tuple[str, int, int], counted: bool) -> None:
        self.write(held, "release", int(counted), 3, "worker_lost", "gone", "")

    @rule(held=claims)
    def renew(self, held: tuple[str, int, int]) -> None:
        stale = self.redis.hget(f"ph:gen:{held[0]}", "fence") != str(held[1])
        assert self.scripts.call("renew", 10_000, held[0], held[1]) == ([held[0]] if stale else [])

    @rule(job=jobs)
    def cancel(self, job: str) -> None:
        self.store.cancel(job)

    @rule(job=jobs)
    def void(self, job: str) -> None:
        self.store.void(job)
        self.statuses.pop(job, None)

    @rule()
    def reap(self) -> None:
        self.scripts.call("reap", 0, 10_000, 3, 5000, 100)

    @invariant()
    def logs_are_contiguous_and_end_once(self) -> None:
        for generation in self.generations:
            log = list(self.store.whole_log(generation))
            assert [e.sequence for e in log] == list(range(len(log)))
            assert sum(e.ends for e in log) <= 1
            assert not any(e.ends for e in log[:-1])

    @invariant()
    def the_line_and_the_running_hold_what_waits_and_runs(self) -> None:
        alive = {g: self.redis.hgetall(f"ph:gen:{g}") for g in self.generations}
        waiting = {g["member"] for g in alive.values() if g["status"] not in TERMINAL and g["owner"] == ""}
        running = {i for i, g in alive.items() if g["status"] not in TERMINAL and g["owner"] != ""}
        assert set(self.redis.zrange("ph:line:m", 0, -1)) == waiting
        assert set(self.redis.zrange("ph:running", 0, -1)) == running
        counts = {t: int(n) for t, n in self.redis.hgetall("ph:line:m:tenants").items()}
        assert sum(counts.values()) == len(waiting)
        assert all(n > 0 for n in counts.values())

    @invariant()
    def statuses_change_only_legally_and_never_after_the_end(self) -> None:
        for job, before in self.statuses.items():
            view = self.store.view(job)
            assert view is not None
            now = view.status
            legal = now is before or may_become(before, now)
            # Two steps may lie between two looks: queued, in progress, ended.
            assert legal or (before is Status.QUEUED and may_become(Status.IN_PROGRESS, now)), (job, before, now)
            self.statuses[job] = now

    @invariant()
    def attempts_stay_within_their_limit(self) -> None:
        for generation in self.generations:
            assert 0 <= int(self.redis.hget(f"ph:gen:{generation}", "attempts") or 0) <= 3


Books.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestHistories = Books.TestCase
