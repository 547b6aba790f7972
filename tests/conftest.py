"""Fixtures that every layer of tests shares: real Redis, one server a session, one database a test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.redis_process import RedisProcess

_databases = itertools.count(1)


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisProcess]:
    server = RedisProcess()
    yield server
    server.close()


@pytest.fixture
def redis_url(shared_redis: RedisProcess) -> str:
    """The URL of a database that no other test uses."""
    return shared_redis.url(next(_databases))


@pytest.fixture
def own_redis() -> Iterator[RedisProcess]:
    """A server of the test's own, to be killed and frozen."""
    server = RedisProcess()
    yield server
    server.close()
