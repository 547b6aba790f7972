"""The delivery side wired for tests as a process wires it, on a given Redis and with short waits."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import redis

from app.jobs.accepting import QueueCaps
from app.jobs.job import Webhook
from app.jobs.store import JobStore
from app.redis import jobs_client
from app.webhooks.backoff import Schedule
from app.webhooks.deliveries import DeliveryStore
from app.webhooks.fanout import FanOut
from app.webhooks.lookup import Lookup, SystemLookup
from app.webhooks.targets import Targets
from app.webhooks.tenant_secrets import TenantSecrets
from app.webhooks.transport import AiohttpTransport
from tests.support.letters import letter
from workers.deliveries import Courier, Limits, deliver

SECRET_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
LIMITS = Limits(concurrency=16, per_host=2, attempt_timeout=2, lease_margin=1, poll=0.05)
SCHEDULE = Schedule(first=0.05, longest=0.2, max_attempts=6)


@dataclass
class Office:
    """Everything that ends jobs and sends their webhooks, against one database."""

    client: redis.Redis
    jobs: JobStore
    store: DeliveryStore
    secrets: TenantSecrets
    courier: Courier
    targets: Targets
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    def end_job(self, url: str, *, tenant: str = "t", events: tuple[str, ...] = (), **facts: object) -> str:
        """Submit a job with a webhook and cancel it; its outbox entry stands. Returns the job's id."""
        job, generation = letter(tenant=tenant, webhook=Webhook(url, events), **facts)  # type: ignore[arg-type]
        self.jobs.submit(job, generation)
        assert self.jobs.cancel(job.id)
        return job.id

    def deliver(self, stopping: Callable[[], bool] = lambda: False) -> dict[str, int]:
        """One run, as the task makes it."""
        limits = self.courier.limits
        connect = partial(AiohttpTransport, self.targets, self.tls, timeout=limits.attempt_timeout, threads=8)
        return deliver(self.courier, connect, stopping)

    def record(self) -> dict[str, str]:
        """The one delivery that this database holds."""
        (key,) = self.client.keys("ph:delivery:*")
        return self.client.hgetall(key)


def office(
    url: str,
    *,
    allow: Iterable[str] = ("127.0.0.1",),
    limits: Limits = LIMITS,
    schedule: Schedule = SCHEDULE,
    lookup: Lookup | None = None,
) -> Office:
    client = jobs_client(url, timeout=5)
    jobs = JobStore(client, caps=QueueCaps(10_000, 10_000), idempotency_seconds=60, submit_timeout=5)
    store, secrets = DeliveryStore(client), TenantSecrets(client, SECRET_KEY)
    courier = Courier(store, FanOut(store, jobs), secrets, schedule, limits)
    return Office(client, jobs, store, secrets, courier, Targets(allow, lookup or SystemLookup()))
