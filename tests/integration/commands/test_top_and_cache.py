"""`posthouse top --once` and `posthouse cache`: what they show and do, and what they say when Redis is away."""

from __future__ import annotations

import json
import time

import pytest
import redis
from click.testing import CliRunner, Result

from app.commands.cache import cache
from app.commands.top import top
from app.commands.top_view import seconds
from app.jobs.accepting import QueueCaps
from app.jobs.store import JobStore
from cache.keys import cache_key
from cache.store import RedisEntryStore
from tests.support.letters import letter
from tests.support.redis_process import free_port


def run(command, url: str, *args: str) -> Result:
    env = {
        "POSTHOUSE_REDIS__JOBS_URL": url,
        "POSTHOUSE_REDIS__CACHE_URL": url,
        "POSTHOUSE_REDIS__CACHE_TIMEOUT": "2",
        "POSTHOUSE_MODELS": json.dumps({"m": {"engine": "paced"}}),
        "COLUMNS": "200",
    }
    return CliRunner(env=env).invoke(command, args)


def client_of(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True, protocol=2)


def kept(url: str, tenant: str, model: str, number: int) -> None:
    key = cache_key(tenant=tenant, model=model, revision="r", quantization="", request={"n": number})
    RedisEntryStore(client_of(url)).put(key, "{}", 60_000)


def test_one_frame_shows_lines_tenants_instances_breakers_and_the_cache(redis_url: str) -> None:
    client = client_of(redis_url)
    store = JobStore(client, caps=QueueCaps(20, 20), idempotency_seconds=60, submit_timeout=1)
    for tenant, tier in (("acme", "priority"), ("acme", "flex"), ("other", "default")):
        store.submit(*letter(tenant=tenant, tier=tier))
    facts = {
        "id": "m.0", "model": "m", "slot": 0, "revision": "r", "engine": "paced", "device": "cpu", "state": "ready",
        "capacity": 4, "in_flight": 4, "tokens_per_second": 12.5, "started": 9, "finished": 7, "aborted": 1,
    }  # fmt: skip
    client.hset("ph:instance:m.0", mapping=facts)
    client.zadd("ph:instances:m", {"m.0": int(time.time() * 1000)})
    client.rpush("ph:ring:m", "m.0")
    client.hset("ph:rate:m", mapping={"work": 100, "busy": 40, "runs": 10, "at": 0})
    client.hset("phcs:counts", mapping={"hits": 3, "misses": 1})
    done = run(top, redis_url, "--once")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines()]
    line = next(row for row in rows if row[:1] == ["m"])
    assert line[1:5] == ["3", "1", "1", "1"]
    assert line[-3:] == ["4.0s", "4", "0"]
    assert next(row for row in rows if row[:1] == ["m.0"])[1:] == ["ready", "closed", "4", "4", "12.5", "7", "1"]
    assert ["acme", "m", "2"] in rows
    assert ["other", "m", "1"] in rows


def test_one_frame_says_that_redis_is_away(redis_url: str) -> None:
    done = run(top, f"redis://:a-password@127.0.0.1:{free_port()}/0", "--once")
    assert done.exit_code == 1
    assert "does not answer" in done.stdout
    assert "a-password" not in done.output


def test_the_cache_is_shown_and_cleared_by_tenant_and_model(redis_url: str) -> None:
    for number in range(3):
        kept(redis_url, "acme", "m", number)
    kept(redis_url, "other", "m", 9)
    kept(redis_url, "acme", "n", 9)
    assert "keys        5" in run(cache, redis_url, "stats").stdout
    assert run(cache, redis_url, "clear", "--tenant", "acme", "--model", "m").stdout == "3 answers removed\n"
    assert run(cache, redis_url, "clear", "--tenant", "other").stdout == "1 answers removed\n"
    assert run(cache, redis_url, "clear").stdout == "1 answers removed\n"


@pytest.mark.parametrize("args", [("stats",), ("clear",)])
def test_a_cache_that_is_away_is_one_sentence(args: tuple[str, ...]) -> None:
    done = run(cache, f"redis://:a-password@127.0.0.1:{free_port()}/0", *args)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: the cache Redis does not answer")
    assert "a-password" not in done.output


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0, "0.0s"), (59.94, "59.9s"), (61, "1m01s"), (600, "10m00s")]
)
def test_waits_are_short_to_read(value: float | None, shown: str) -> None:
    assert seconds(value) == shown
