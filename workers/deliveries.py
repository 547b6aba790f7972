"""Sends what is due. One run drains many deliveries; a hint that finds nothing to do ends at once.

Fan-out and sending go on side by side: threads for Redis and name resolution (their calls block), one event loop for
the attempts. Attempts are bounded in all and per host, and a host at its bound is passed over, so a slow receiver
delays nobody else.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from app.errors import ServerError
from app.webhooks.backoff import Answer, Schedule, judge
from app.webhooks.deliveries import Claim, DeliveryStore
from app.webhooks.fanout import FanOut
from app.webhooks.signing import signed_headers
from app.webhooks.tenant_secrets import TenantSecrets
from app.webhooks.transport import AiohttpTransport, Transport

_log = structlog.get_logger()


@dataclass(frozen=True)
class Limits:
    """Bounds of one run.

    Attributes:
        concurrency: attempts under way in all.
        per_host: attempts under way per host.
        attempt_timeout: seconds an attempt may take.
        lease_margin: seconds that a claim's lease outlasts the attempt, for settling it.
        poll: seconds after which a run with attempts under way looks for new work again.
        longest_run: seconds after which a run takes nothing new; the next hint continues.
    """

    concurrency: int = 64
    per_host: int = 8
    attempt_timeout: float = 15.0
    lease_margin: float = 15.0
    poll: float = 0.25
    longest_run: float = 120.0

    @property
    def lease(self) -> float:
        return self.attempt_timeout + self.lease_margin


@dataclass(frozen=True)
class Courier:
    """What a run works with; built by `bootstrap`, shared by all runs of a process."""

    store: DeliveryStore
    fan_out: FanOut
    secrets: TenantSecrets
    schedule: Schedule
    limits: Limits
    clock: Callable[[], float] = time.time
    random: Callable[[], float] = random.random
    draining: threading.Lock = field(default_factory=threading.Lock)


def deliver(
    courier: Courier, connect: Callable[[], AiohttpTransport], stopping: Callable[[], bool] = lambda: False
) -> dict[str, int]:
    """`drain` on an event loop and a transport of its own; for callers that have no loop."""

    async def run() -> dict[str, int]:
        async with connect() as transport:
            return await drain(courier, transport, stopping)

    return asyncio.run(run())


async def drain(courier: Courier, transport: Transport, stopping: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Fan out the outbox and send until nothing is due. A second call in the same process meanwhile does nothing.

    Args:
        courier: what to work with.
        transport: carries the attempts; entered on the running loop.
        stopping: asked between claims; True finishes the attempts under way and takes nothing new.

    Returns:
        Counts: `already_draining`, or `fanned_out`, `delivered`, `retry`, `dead`, `lost` (claims that were lost before
        they were settled, or Redis was away: due again when the lease ends).

    Raises:
        redis.RedisError, Unavailable: Redis is away. Attempts under way have ended; the next hint continues.
    """
    if not courier.draining.acquire(blocking=False):
        return {"already_draining": 1}
    try:
        return await _Run(courier, transport, stopping).drain()
    finally:
        courier.draining.release()


class _Run:
    def __init__(self, courier: Courier, transport: Transport, stopping: Callable[[], bool]) -> None:
        self._courier = courier
        self._transport = transport
        self._counts: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()
        self._attempts: set[asyncio.Task[None]] = set()
        self._stopping = stopping

    async def drain(self) -> dict[str, int]:
        self._until = asyncio.get_running_loop().time() + self._courier.limits.longest_run
        fanning = asyncio.create_task(self._fan_out())
        try:
            while await self._more(fanning):
                await self._wait(fanning)
        finally:
            await asyncio.gather(fanning, *self._attempts, return_exceptions=True)
        return dict(self._counts)

    async def _more(self, fanning: asyncio.Task[None]) -> bool:
        """Start what is due. False when nothing was, nothing is under way, and fan-out had ended before the look."""
        fanned_out = fanning.done()
        return bool(await self._start_due() or self._attempts or not fanned_out)

    def _over(self) -> bool:
        return self._stopping() or asyncio.get_running_loop().time() > self._until

    async def _fan_out(self) -> None:
        entries = 1
        while entries and not self._over():
            entries, created = await asyncio.to_thread(self._courier.fan_out.step)
            self._counts["fanned_out"] += created

    async def _start_due(self) -> int:
        """Claim as many as there is room for, and start them. Returns how many."""
        limits = self._courier.limits
        room = limits.concurrency - len(self._attempts)
        if room <= 0 or self._over():
            return 0
        per_host = {host: limits.per_host - under_way for host, under_way in self._hosts.items()}
        claims = await asyncio.to_thread(self._courier.store.claim_due, room, limits.lease, limits.per_host, per_host)
        for claim in claims:
            self._start(claim)
        return len(claims)

    def _start(self, claim: Claim) -> None:
        self._hosts[claim.host] += 1
        task = asyncio.create_task(self._attempt(claim))
        self._attempts.add(task)
        task.add_done_callback(lambda done: self._ended(claim, done))

    def _ended(self, claim: Claim, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        self._hosts[claim.host] -= 1
        if not self._hosts[claim.host]:
            del self._hosts[claim.host]
        if not task.cancelled() and (error := task.exception()):
            self._counts["lost"] += 1
            _log.error("webhook_attempt_lost", delivery=claim.id, host=claim.host, error=type(error).__name__)

    async def _wait(self, fanning: asyncio.Task[None]) -> None:
        if fanning.done():
            fanning.result()
        under_way = self._attempts if fanning.done() else self._attempts | {fanning}
        if under_way:
            await asyncio.wait(under_way, timeout=self._courier.limits.poll, return_when=asyncio.FIRST_COMPLETED)

    async def _attempt(self, claim: Claim) -> None:
        answer = await self._send(claim)
        verdict = judge(answer, claim.attempt, self._courier.schedule, self._courier.random)
        held = await asyncio.to_thread(self._courier.store.settle, claim, answer, verdict)
        self._counts[verdict.outcome if held else "lost"] += 1
        _log.info(
            "webhook_attempt",
            delivery=claim.id,
            attempt=claim.attempt,
            host=claim.host,
            status=answer.status,
            error=answer.error or None,
            outcome=verdict.outcome if held else "lost",
        )

    async def _send(self, claim: Claim) -> Answer:
        if claim.attempt > self._courier.schedule.max_attempts:
            return Answer(error="attempts_exhausted")  # the last attempt's worker died before it could settle
        try:
            secrets = await asyncio.to_thread(self._courier.secrets.signing, claim.tenant)
        except ServerError:
            return Answer(error="secret_unreadable")
        headers = signed_headers(claim.event_id, claim.body, secrets, self._courier.clock())
        return await self._transport.post(claim.url, headers, claim.body)
