"""The job store as workers use it: claim, append, renew, commit, release, reap. Asyncio; each call one Lua step.

Every write carries the fencing token of its claim; a worker that lost its lease writes nothing. Redis errors pass
through: the callers retry, because a repeated call of any of these changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis.asyncio
import structlog
from prometheus_client import Counter

from app.jobs import events
from app.jobs.generation import UNCOUNTED, CanonicalRequest, Claim, Usage
from app.jobs.store import SCRIPTS
from app.lua import AsyncScripts, Call
from model_pool.breaker import BreakerPolicy

# Each costs Redis up to 0.1 ms, and nobody else is served meanwhile.
_REAPED_AT_ONCE = 20

_log = structlog.get_logger(__name__)
_unconfirmed = Counter("posthouse_commits_unconfirmed", "commits that no replica had in time")


def _request(text: str, budget: str) -> CanonicalRequest:
    """What the engine is asked; a model that stands in for another has a budget of its own, which may be lowered."""
    request = CanonicalRequest.from_json(text)
    if not budget:
        return request
    return CanonicalRequest(request.messages, {**request.params, "max_tokens": int(budget), UNCOUNTED: "open"})


@dataclass(frozen=True)
class Verdict:
    """How a run ended: status, result or error, and what it cost.

    `joinable`: identical requests may have this answer for some seconds more, until the cache has it.
    """

    status: str
    usage: Usage
    result: str = ""
    code: str = ""
    message: str = ""
    joinable: bool = False


@dataclass(frozen=True)
class ReapReport:
    """What one tick of the reaper did.

    Attributes:
        outcome: reaped, held, skipped, or more: the tick did as much as one may, and the next should come at once.
        hints: how many hints each slow line needs.
    """

    outcome: str
    taken_back: int = 0
    failed: int = 0
    past_deadline: int = 0
    webhooks_waiting: bool = False
    hints: tuple[tuple[str, int], ...] = ()


class WorkStore:
    """Jobs in Redis, for one worker process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        *,
        lease_seconds: float,
        tick_seconds: float,
        max_attempts: int,
        silence: float,
        confirm_seconds: float = 0,
        breaker: BreakerPolicy,
    ) -> None:
        self._client = client
        self._scripts = AsyncScripts(client, SCRIPTS)
        self._lease_ms = int(lease_seconds * 1000)
        self._tick_ms = int(tick_seconds * 1000)
        self._max_attempts = max_attempts
        self._silence_ms = int(silence * 1000)
        self._confirm_ms = int(confirm_seconds * 1000)
        self._breaker = breaker.encode()

    async def send(self, calls: Sequence[Call]) -> list[Any]:
        """Many calls in one round trip; built by the `*_call` methods."""
        commits = self._confirm_ms > 0 and any(name == "commit" for name, _ in calls)
        replies, replicas = await self._scripts.call_many(calls, confirm_ms=self._confirm_ms if commits else 0)
        if commits and replicas < 1:
            _unconfirmed.inc()
            _log.warning("commit_not_replicated")
        return replies

    def claim_call(self, model: str, owner: str, instance: str, task_id: str) -> Call:
        return "claim", (model, owner, instance, self._lease_ms, task_id, self._breaker)

    @staticmethod
    def claim_from(reply: Sequence[Any]) -> Claim | None:
        """The claim in a reply of `claim_call`, or None when the line had nothing to run."""
        if len(reply) < 2:  # noqa: PLR2004 -- one: see `elsewhere_from`
            return None
        return Claim(
            generation=str(reply[0]),
            fence=int(reply[1]),
            attempts=int(reply[2]),
            sequence=int(reply[3]),
            now=int(reply[4]),
            deadline_at=int(reply[5]),
            request=_request(reply[6], reply[12]),
            tenant=str(reply[7]),
            prompt_token_ids=tuple(json.loads(reply[8])) if reply[8] else (),
            resumed=bool(int(reply[9])),
            continuable=reply[10] == "1",
            cache=str(reply[11]),
        )

    @staticmethod
    def elsewhere_from(reply: Sequence[Any]) -> str | None:
        """The slot of another instance that should get the hint, when a claim found work that is not for this one.

        Empty: the claim ended late work, as much as one step may, and has to be made again.
        """
        return str(reply[0]) if len(reply) == 1 else None

    @staticmethod
    def elsewhere_call(model: str, instance: str) -> Call:
        """Reply: the slot of another instance that should get the hint, or ''."""
        return "elsewhere", (model, instance)

    @staticmethod
    def append_call(claim: Claim, sequence: int, batch: Sequence[str], prompt_ids: Sequence[int] = ()) -> Call:
        """Reply 1, or 0 when the lease is lost."""
        ids = json.dumps(list(prompt_ids), separators=(",", ":")) if prompt_ids else ""
        return "append", (claim.generation, claim.fence, sequence, ids, *batch)

    def renew_call(self, claims: Sequence[Claim]) -> Call:
        """Reply: the ids of generations that are lost or unwanted."""
        return "renew", (self._lease_ms, *(part for c in claims for part in (c.generation, c.fence)))

    @staticmethod
    def commit_call(claim: Claim, sequence: int, verdict: Verdict, log: Sequence[str]) -> Call:
        """Reply 1, or 0 when the lease is lost."""
        usage = verdict.usage
        return "commit", (
            claim.generation, claim.fence, sequence, verdict.status, verdict.result, verdict.code, verdict.message,
            usage.input_tokens, usage.output_tokens, int(verdict.joinable), *log,
        )  # fmt: skip

    def release_call(self, claim: Claim, *, counted: bool, code: str, message: str, exclude: str = "") -> Call:
        """Reply (outcome, model, slot): requeued, failed or lost; another instance that has a free place, or ''."""
        return "release", (claim.generation, claim.fence, int(counted), self._max_attempts, code, message, exclude)

    async def log(self, generation: str, start: int) -> list[events.Event]:
        """All events of a generation from sequence number `start` on."""
        entries: Any = await self._client.xrange(f"ph:gen:{generation}:log", min=f"{start + 1}-0")
        return events.from_stream(entries)

    async def reap(self, limit: int = _REAPED_AT_ONCE) -> ReapReport:
        """One tick of the reaper, which ends, takes back or hands out at most `limit`."""
        args = (self._tick_ms, self._lease_ms, self._max_attempts, self._silence_ms, limit)
        reply = await self._scripts.call("reap", *args)
        if reply[0] == "skipped":
            return ReapReport("skipped")
        hints = tuple((str(m), int(n)) for m, n in zip(reply[5::2], reply[6::2], strict=True))
        return ReapReport(str(reply[0]), int(reply[1]), int(reply[2]), int(reply[3]), bool(reply[4]), hints)

    async def forward(self, model: str, instance: str, slot: int) -> int:
        """Give the hints on the own queue of an instance that may take no work to others; how many went."""
        return int(await self._scripts.call("forward", model, instance, slot))

    async def waiting(self, model: str) -> int:
        """Generations of a model that stand in line."""
        return int(await self._client.zcard(f"ph:line:{model}"))

    async def waiting_messages(self, queues: Sequence[str]) -> int:
        """Hints that lie in these queues, unread (kombu keeps a queue as a list of its name)."""
        pipeline = self._client.pipeline(transaction=False)
        for name in queues:
            pipeline.llen(name)
        return sum(await pipeline.execute())
