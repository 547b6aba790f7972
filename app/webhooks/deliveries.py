"""The records of deliveries: created once, claimed with a lease, settled by whoever holds the claim.

A record (`ph:delivery:<id>`, hash) holds all that sending needs: URL, body, tenant. The job may have aged out long
before the last attempt. States: `pending`, then `delivered` or `dead`. Keys without a TTL: `ph:outbox` and
`ph:deliveries:due` (one member per host with something pending); both empty themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import redis

from app.lua import Scripts
from app.webhooks.backoff import Answer, Verdict
from app.webhooks.scripts import SCRIPTS

_DAY_MS: Final = 24 * 3600 * 1000
_PENDING_TTL_MS: Final = 7 * _DAY_MS  # renewed by every attempt; far above the longest wait between two
_SETTLED_TTL_MS: Final = {"retry": _PENDING_TTL_MS, "delivered": 3 * _DAY_MS, "dead": 7 * _DAY_MS}
_MOST_DEAD: Final = 1000


@dataclass(frozen=True)
class NewDelivery:
    """An event on its way to one receiver.

    Attributes:
        host: `host:port`; deliveries to one host share a line.
        subject: id of what the event is about (`resp_…`).
        body: ASCII.
    """

    host: str
    tenant: str
    url: str
    event_id: str
    event_type: str
    subject: str
    body: bytes

    @property
    def id(self) -> str:
        """`whd_…`, the same whenever the same event goes to the same URL."""
        return "whd_" + hashlib.sha256(f"{self.event_id} {self.url}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Claim:
    """The right to make attempt number `attempt` (from 1) until the lease ends."""

    id: str
    attempt: int
    host: str
    tenant: str
    url: str
    event_id: str
    body: bytes


@dataclass(frozen=True)
class Waiting:
    """What waits at this moment: outbox entries to fan out, and hosts with a delivery due."""

    outbox: int
    hosts: int

    def __bool__(self) -> bool:
        return bool(self.outbox or self.hosts)


class DeliveryStore:
    """Synchronous and safe to share between threads. Redis errors pass through unchanged."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._scripts = Scripts(client, SCRIPTS)

    def create(self, deliveries: Iterable[NewDelivery]) -> int:
        """Write the records that do not exist yet, due at once, in one step. Returns how many were new."""
        args: list[str | bytes] = []
        for d in deliveries:
            args += (d.id, d.host, d.tenant, d.url, d.event_id, d.event_type, d.subject, d.body)
        return int(self._scripts.call("create", _PENDING_TTL_MS, *args)) if args else 0

    def claim_due(self, limit: int, lease: float, per_host: int, room: Mapping[str, int]) -> list[Claim]:
        """Claim deliveries that are due, the hosts that wait longest first.

        Args:
            limit: most claims in all.
            lease: seconds after which an unsettled claim is due again.
            per_host: most claims per host.
            room: for hosts with attempts under way, how many more they may get now instead.
        """
        pairs = [part for host, free in room.items() for part in (host, free)]
        replies: list[list[Any]] = self._scripts.call("claim_due", limit, _ms(lease), _PENDING_TTL_MS, per_host, *pairs)
        return [Claim(r[0], r[1], r[2], r[3], r[4], r[5], r[6].encode("ascii")) for r in replies]

    def settle(self, claim: Claim, answer: Answer, verdict: Verdict) -> bool:
        """Record an attempt's outcome. False: the claim was lost meanwhile, and nothing was written."""
        ttl = _SETTLED_TTL_MS[verdict.outcome]
        delay, status = _ms(verdict.delay), answer.status or ""
        args = (claim.id, claim.attempt, verdict.outcome, status, answer.error, delay, ttl, _MOST_DEAD)
        return bool(self._scripts.call("settle", *args))

    def work_waiting(self) -> Waiting:
        """One cheap round trip, O(log n)."""
        outbox, hosts = self._scripts.call("waiting")
        return Waiting(outbox, hosts)

    def outbox(self, limit: int) -> list[str]:
        """The oldest due entries, `gen:<id>` or `job:<id>`."""
        return list(self._scripts.call("outbox", limit))

    def outbox_done(self, entry: str) -> None:
        """All deliveries of the entry exist."""
        self._client.zrem("ph:outbox", entry)

    def outbox_add(self, entry: str, delay: float) -> None:
        """Have an entry in `delay` seconds, whether it was there before or not."""
        self._scripts.call("postpone", entry, _ms(delay), "1")

    def outbox_postpone(self, entry: str, delay: float) -> None:
        """Try the entry again in `delay` seconds, if it is still there."""
        self._scripts.call("postpone", entry, _ms(delay))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
