"""The roles of a stack, each started, stopped, killed and frozen by the test: `posthouse api`, `worker`, `webhooks`.

Where `posthouse up` would start a dead role again, here nothing happens unless the test does it.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import redis

from tests.support import processes
from tests.support.door import KEY, Door
from tests.support.redis_process import RedisProcess, free_port
from tests.support.stack import POSTHOUSE, environment
from tests.support.waiting import wait_until

PACED = """
[models.paced]
engine = "paced"
max_concurrency = 16
"""


class Part:
    """One running role: the process that the command became, in a group of its own."""

    def __init__(self, command: Sequence[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=log.parent, process_group=0
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, limit: float = 30) -> int:
        return self._process.wait(limit)

    def terminate(self, limit: float = 60) -> int:
        """SIGTERM to the main process; its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(limit)

    def kill(self) -> None:
        """SIGKILL to the main process, and to what is left of its group once it is gone."""
        if self.status is None:
            self.signal(signal.SIGKILL)
            self.wait()
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


class House(Door):
    """A Redis, a configuration, and roles on demand.

    Args:
        config: text of posthouse.toml.
    """

    def __init__(self, config: str = PACED) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ph-", dir="/tmp"))
        self.jobs_redis = RedisProcess()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._parts: list[Part] = []
        file = self.folder / "posthouse.toml"
        file.write_text(config)
        self.env = environment(
            POSTHOUSE_CONFIG=str(file),
            POSTHOUSE_DATA_DIR=str(self.folder / "data"),
            POSTHOUSE_REDIS__JOBS_URL=self.jobs_redis.url(),
            POSTHOUSE_REDIS__CACHE_URL=self.jobs_redis.url(1),
            POSTHOUSE_API__PORT=str(self.port),
            POSTHOUSE_API__DEV_KEY=KEY,
            POSTHOUSE_SECRET_KEY=base64.urlsafe_b64encode(os.urandom(32)).decode(),
        )

    def start(self, *command: str) -> Part:
        """Start a role by its command: `start("worker", "paced", "--slot", "1")`."""
        number = len(self._parts)
        part = Part([str(POSTHOUSE), *command], self.env, self.folder / f"{number}-{command[0]}.log")
        self._parts.append(part)
        return part

    def api(self) -> Part:
        """The API, once it answers."""
        part = self.start("api")
        wait_until(self._answers, what="the API answers", limit=60, every=0.1)
        return part

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/healthz", key=None, timeout=5).status == 200
        except OSError:
            return False

    def worker(self, model: str = "paced", slot: int = 0) -> Part:
        """A GPU worker, once it takes work."""
        part = self.begin_worker(model, slot)
        self.wait_ready(part)
        return part

    def begin_worker(self, model: str = "paced", slot: int = 0) -> Part:
        """A GPU worker, without waiting for it."""
        return self.start("worker", model, "--slot", str(slot))

    def wait_ready(self, part: Part, limit: float = 60) -> None:
        """Until a worker has said that Celery consumes."""

        def ready() -> bool:
            assert part.status is None, f"the worker ended with {part.status}:\n{part.text()[-3000:]}"
            return "worker_ready" in part.text()

        wait_until(ready, what="the worker is ready", limit=limit, every=0.1)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every role that was ever started, the oldest first."""
        return tuple(self._parts)

    def redis(self) -> redis.Redis:
        return self.jobs_redis.client()

    def socket(self, model: str = "paced", slot: int = 0) -> Path:
        """Where an instance's server listens."""
        return self.folder.resolve() / "data" / "run" / f"{model}.{slot}.sock"

    def engine_pid(self, worker: Part, model: str = "paced", slot: int = 0) -> int:
        """The engine's server process of a worker."""
        return wait_until(lambda: self._engine(worker, model, slot), what=f"the engine of {model}.{slot}")

    def _engine(self, worker: Part, model: str, slot: int) -> int | None:
        socket = str(self.socket(model, slot))
        found = [p for p in processes.below(worker.pid) if socket in processes.command_line(p)]
        servers = [p for p in found if "model_pool.keeper" not in processes.command_line(p)]
        return servers[0].pid if servers else None

    def text(self) -> str:
        """Everything that all roles have logged."""
        return "\n".join(f"--- {part.log.name}\n{part.text()}" for part in self._parts)

    def close(self) -> None:
        """End every role at once. Nothing that mentions this house's folder may be left."""
        for part in self._parts:
            part.kill()
        self.jobs_redis.close()
        wait_until(lambda: not processes.mentioning(str(self.folder)), what="no process is left", limit=20, every=0.2)
        shutil.rmtree(self.folder, ignore_errors=True)
