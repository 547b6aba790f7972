"""A whole stack for tests, started by the very command that an operator uses: `posthouse up`.

Everything is a real process: embedded Redis, gunicorn, Celery workers with their instances, webhook worker, Flower.
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
import tomllib
from pathlib import Path

import redis

from tests.support import processes
from tests.support.door import KEY, Door
from tests.support.waiting import wait_until

POSTHOUSE = Path(sys.executable).parent / "posthouse"

_MARKS = {
    "api": ("gunicorn",),
    "webhooks": ("workers.main", "webhooks@"),
    "flower": ("workers.flower",),
    "redis.jobs": ("redis-server", "127.0.0.1:{redis.jobs}"),
    "redis.cache": ("redis-server", "127.0.0.1:{redis.cache}"),
}


def environment(**more: str) -> dict[str, str]:
    """This process's, without settings of Posthouse that a developer may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")} | more


class Stack(Door):
    """`posthouse up` with the paced engine, unless the configuration says otherwise.

    Args:
        config: text of posthouse.toml; default one model `paced`.
        args: more options of `posthouse up`.
        env: more environment variables.
        patience: seconds until it must be ready; a real model takes its time on a busy machine.
    """

    def __init__(
        self,
        config: str = "",
        *,
        args: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        patience: float = 120,
    ) -> None:
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
        self._out = self.log.open("wb")
        self.process = subprocess.Popen(
            command, stdout=self._out, stderr=subprocess.STDOUT, env=environment(**(env or {})), cwd=self.folder
        )
        try:
            self.url = self._ready(patience)
        except BaseException:
            self.kill()
            raise

    def _ready(self, patience: float) -> str:
        def look() -> str | None:
            if self.process.poll() is not None:
                raise AssertionError(f"posthouse up ended with {self.process.returncode}:\n{self.text()[-4000:]}")
            found = re.search(r"^ready (http://\S+)$", self.text(), re.MULTILINE)
            return found and found.group(1)

        return str(wait_until(look, what="posthouse up prints ready", limit=patience, every=0.1))

    def text(self) -> str:
        """Everything that all roles have logged."""
        return self.log.read_text(errors="replace")

    @property
    def secrets(self) -> dict[str, str]:
        return tomllib.loads((self.data / "secrets.toml").read_text())

    @property
    def ports(self) -> dict[str, int]:
        return dict(json.loads((self.data / "ports.json").read_text()))

    @property
    def redis_url(self) -> str:
        return f"redis://:{self.secrets['redis_password']}@127.0.0.1:{self.ports['redis.jobs']}/0"

    @property
    def flower_url(self) -> str:
        found = re.search(r"Flower\s+(http://\S+)", self.text())
        assert found, "posthouse up names no Flower"
        return found.group(1)

    def new_key(self, tenant: str) -> str:
        """An API key, made as an operator makes one; its secret."""
        command = [str(POSTHOUSE), "keys", "--data", str(self.data), "create", "--tenant", tenant]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(), timeout=60)
        return done.stdout.strip()

    def redis(self) -> redis.Redis:
        """A client of the stack's jobs Redis."""
        return redis.Redis.from_url(self.redis_url, decode_responses=True, protocol=2, socket_timeout=5)

    def ended_generations(self, model: str = "paced") -> int:
        """Generations of a model that have ended, as the records count them: exact whatever the heartbeats say."""
        found = self.redis().hgetall(f"ph:stats:{model}")
        return sum(int(found.get(status, 0)) for status in ("completed", "incomplete", "failed", "cancelled"))

    def pid_of(self, role: str) -> int:
        """The main process of a role (`api`, `gpu.paced.0`, `webhooks`, `flower`, `redis.jobs`, `redis.cache`)."""
        return wait_until(lambda: self._find(role), what=f"process of {role}")

    def _find(self, role: str) -> int | None:
        marks = _MARKS.get(role)
        if marks is None:
            _, model, slot = role.split(".")
            marks = ("workers.main", f"gpu-{model}-{slot}@")
        marks = tuple(re.sub(r"\{(.+)\}", lambda m: str(self.ports[m.group(1)]), mark) for mark in marks)
        found = processes.find(processes.below(self.process.pid), *marks)
        return found.pid if found else None

    def engine_pid(self, model: str = "paced", slot: int = 0) -> int:
        """The engine's server process of an instance."""
        return wait_until(lambda: self._engine(model, slot), what=f"the engine of {model}.{slot}")

    def _engine(self, model: str, slot: int) -> int | None:
        socket = str(self.socket(model, slot))
        found = [p for p in processes.below(self.process.pid) if socket in processes.command_line(p)]
        servers = [p for p in found if "model_pool.keeper" not in processes.command_line(p)]
        return servers[0].pid if servers else None

    def socket(self, model: str = "paced", slot: int = 0) -> Path:
        """Where an instance's server listens."""
        return self.data.resolve() / "run" / f"{model}.{slot}.sock"

    def stop(self, limit: float = 90) -> int:
        """Ctrl-C; the exit status. Everything must be gone afterwards."""
        children = processes.below(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._out.close()
        wait_until(lambda: not any(processes.lives(c) for c in children), what="no process is left", limit=15)
        shutil.rmtree(self.folder, ignore_errors=True)
        return status

    def kill(self) -> None:
        """The last resort of a test that has failed already."""
        for process in processes.below(self.process.pid):
            if processes.lives(process):
                process.kill()
        self.process.kill()  # nothing when it has ended already: then the reason is told, not this
        self.process.wait(10)
        self._out.close()
