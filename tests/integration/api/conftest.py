"""One house for all tests of a session: real Redis, real gunicorn, a stand-in worker, the official SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from app.services.keys import KeyStore
from tests.support.api_process import DEV_KEY, ApiProcess
from tests.support.redis_process import RedisProcess, free_port
from tests.support.stand_in_worker import StandInWorker


@dataclass
class House:
    """`pages` is the origin whose pages may call, where there is one."""

    redis: RedisProcess
    api: ApiProcess
    worker: StandInWorker
    pages: str = ""

    def sdk(self, key: str = DEV_KEY) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.api.url}/v1", api_key=key, max_retries=0, timeout=30)

    def new_key(self, tenant: str, **options: Any) -> str:
        return KeyStore(self.redis.client()).create(tenant, **options)[1]


def build(redis: RedisProcess, **settings: str) -> House:
    api = ApiProcess(redis.url(), **settings)
    return House(redis, api, StandInWorker(redis.client()))


def tear_down(house: House) -> None:
    house.worker.close()
    house.api.close()


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    server = RedisProcess()
    pages = f"http://127.0.0.1:{free_port()}"
    found = build(server, POSTHOUSE_API__CORS_ORIGINS=json.dumps([pages]))
    found.pages = pages
    yield found
    tear_down(found)
    server.close()


@pytest.fixture
def own_house(own_redis: RedisProcess) -> Iterator[House]:
    """A house whose Redis may be frozen and killed."""
    found = build(own_redis)
    yield found
    own_redis.thaw() if own_redis.process and own_redis.process.poll() is None else None
    tear_down(found)


@pytest.fixture
def sdk(house: House) -> openai.OpenAI:
    return house.sdk()
