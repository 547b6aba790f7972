"""What a tenant's burst of ten thousand does to the next job of somebody else: one start comes before it."""

from __future__ import annotations

import itertools

import pytest
import redis

from app.jobs.accepting import QueueCaps
from app.jobs.store import SCRIPTS, JobStore
from app.lua import Scripts
from tests.support.letters import letter

pytestmark = pytest.mark.slow

BURST = 10_000


@pytest.mark.timeout(300)
def test_behind_ten_thousand_of_one_tenant_the_next_of_another_starts_after_one(redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url, decode_responses=True, protocol=2)
    store = JobStore(client, caps=QueueCaps(2 * BURST, 2 * BURST), idempotency_seconds=60, submit_timeout=10)
    scripts, tasks = Scripts(client, SCRIPTS), itertools.count()

    def next_tenant() -> str:
        held = scripts.call("claim", "m", "w", "m.0", 60_000, f"burst-{next(tasks)}")
        return str(held[7])

    for _ in range(BURST):
        store.submit(*letter(tenant="burst", deadline_seconds=3600))
    assert next_tenant() == "burst"
    for _ in range(5):
        assert store.submit(*letter(tenant="quiet")).position <= 1
        assert "quiet" in {next_tenant(), next_tenant()}
    assert client.zcard("ph:line:m") == BURST - 1 - 5
