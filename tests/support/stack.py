"""A whole stack for tests, started by the very command that an operator uses: `posthouse up`.

Everything runs as real processes: embedded Redis, gunicorn, Celery workers with their instances, webhook worker, Flower.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import openai
import psutil
import redis

from tests.support.waiting import wait_until

POSTHOUSE = Path(sys.executable).parent / "posthouse"
KEY = "ph_test_key"


class Stack:
    """`posthouse up` with the paced engine, unless the configuration says otherwise.

    Args:
        config: text of posthouse.toml; default one model `paced`.
        args: more options of `posthouse up`.
        env: more environment variables.
    """

    def __init__(self, config: str = "", *, args: tuple[str, ...] = (), env: dict[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ph-", dir="/tmp"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        command = [str(POSTHOUSE), "up", "--port", "0", "--data", str(self.data), "--dev-key", KEY, *args]
        if config:
            file = self.folder / "posthouse.toml"
            file.write_text(config)
            command += ["--config", str(file)]
        else:
            command += ["--engine", "paced"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("POSTHOUSE_")} | (env or {})
        self._out = self.log.open("wb")
        self.process = subprocess.Popen(
            command, stdout=self._out, stderr=subprocess.STDOUT, env=environment, cwd=self.folder
        )
        self.url = self._ready()

    def _ready(self) -> str:
        def look() -> str | None:
            if self.process.poll() is not None:
                raise AssertionError(f"posthouse up ended with {self.process.returncode}:\n{self.text()[-4000:]}")
            found = re.search(r"^ready (http://\S+)$", self.text(), re.MULTILINE)
            return found and found.group(1)

        return str(wait_until(look, what="posthouse up prints ready", limit=180, every=0.1))

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def client(self, key: str = KEY, **options: Any) -> openai.OpenAI:
        """The real SDK, pointed at this stack; without its own retries unless asked for."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, **{"max_retries": 0, "timeout": 60, **options})

    def get(self, path: str, key: str = KEY) -> tuple[int, Any]:
        """A plain GET; status and parsed JSON."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def pool(self, model: str = "paced") -> list[dict[str, Any]]:
        status, body = self.get("/admin/pool")
        assert status == 200, body
        return body["models"][model]["instances"]

    def redis(self) -> redis.Redis:
        """A client of the stack's jobs Redis."""
        secrets = tomllib.loads((self.data / "secrets.toml").read_text())
        return redis.Redis(
            port=self._redis_port(), password=secrets["redis_password"], decode_responses=True, protocol=2,
            socket_timeout=5,
        )  # fmt: skip

    def _redis_port(self) -> int:
        process = psutil.Process(self.pid_of("redis.jobs"))
        return int(next(c.laddr.port for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN))

    def pid_of(self, role: str) -> int:
        """The main process of a role (`api`, `gpu.paced.0`, `webhooks`, `flower`, `redis.jobs`, `redis.cache`)."""
        return wait_until(lambda: self._find(role), what=f"process of {role}")

    def _find(self, role: str) -> int | None:
        marks = {
            "api": ("gunicorn",),
            "webhooks": ("workers.main", "webhooks@"),
            "flower": ("workers.flower",),
            "redis.jobs": ("redis", "jobs"),
            "redis.cache": ("redis", "cache"),
        }.get(role)
        if marks is None:
            _, model, slot = role.split(".")
            marks = ("workers.main", f"gpu-{model}-{slot}@")
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                line = " ".join(child.cmdline())
            except psutil.Error:
                continue
            if all(mark in line for mark in marks):
                return child.pid
        return None

    def engine_pid(self, model: str = "paced", slot: int = 0) -> int:
        """The engine's server process of an instance."""
        worker = psutil.Process(self.pid_of(f"gpu.{model}.{slot}"))
        servers = [
            c
            for c in worker.children(recursive=True)
            if "--uds" in c.cmdline() and "keeper" not in " ".join(c.cmdline())
        ]
        assert servers, "the worker has no engine process"
        return servers[0].pid

    def all_pids(self) -> list[int]:
        return [c.pid for c in psutil.Process(self.process.pid).children(recursive=True)]

    def stop(self, limit: float = 60) -> int:
        """Ctrl-C; the exit status. Everything must be gone afterwards."""
        children = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._out.close()
        wait_until(lambda: not any(_runs(c) for c in children), what="no process is left", limit=15)
        shutil.rmtree(self.folder, ignore_errors=True)
        return status


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Receiver:
    """A webhook receiver: a real HTTP server that keeps what it got.

    `answer` gives the status for a request (given the count so far); default 200.
    """

    def __init__(self, answer: Any = None) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        self.requests: list[tuple[dict[str, str], bytes]] = []
        lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                with lock:
                    receiver.requests.append((dict(self.headers.items()), body))
                    count = len(receiver.requests)
                self.send_response(answer(count) if answer else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Silent: the tests read `requests`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, count: int = 1, limit: float = 30) -> list[tuple[dict[str, str], bytes]]:
        wait_until(lambda: len(self.requests) >= count, what=f"{count} webhook requests", limit=limit)
        return list(self.requests)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
