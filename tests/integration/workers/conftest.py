"""A real Celery worker with a real (paced) instance, driven through the job store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from app.hints import Hints
from app.jobs.job import JobView
from app.jobs.store import JobStore
from app.settings import Settings
from tests.support.letters import letter
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until
from workers import wiring

_KEY = "NneaLsPbBQlYIcYMxhM_2FL1CoWk9g8M02fvb6Kx_RA="


class WorkerUnderTest:
    """`posthouse worker paced` against a Redis of the test's own."""

    def __init__(self, redis: RedisProcess, **jobs: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ph-", dir="/tmp"))
        config = [
            f'data_dir = "{self.folder}"', f'secret_key = "{_KEY}"', "[redis]", f'jobs_url = "{redis.url()}"', "[jobs]",
            *(f"{name} = {value}" for name, value in jobs.items()), "[models.paced]", 'engine = "paced"',
            "max_concurrency = 4", "[models.paced.options]", "ttft_ms = 20", "tpot_ms = 20",
        ]  # fmt: skip
        self.file = self.folder / "posthouse.toml"
        self.file.write_text("\n".join(config))
        self.settings: Settings = self._settings()
        self.store: JobStore = wiring.job_store(self.settings)
        self.hints = Hints(wiring.commands(self.settings))
        self.log = self.folder / "log"
        self.start()

    def _settings(self) -> Settings:
        from app import settings

        os.environ["POSTHOUSE_CONFIG"] = str(self.file)
        try:
            return settings.load()
        finally:
            del os.environ["POSTHOUSE_CONFIG"]

    def start(self) -> None:
        command = [str(Path(sys.executable).parent / "posthouse"), "worker", "paced"]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, env=os.environ | {"POSTHOUSE_CONFIG": str(self.file)}
            )
        before = self.text().count("worker_ready")
        wait_until(lambda: self.text().count("worker_ready") > before, what="the worker is ready")

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def send(self, text: str, **job: object) -> str:
        new, generation = letter(model="paced", text=text, params={"max_tokens": 2000}, **job)  # type: ignore[arg-type]
        accepted = self.store.submit(new, generation)
        self.hints.publish_run("paced", generation.id, accepted.slot)
        return new.id

    def ended(self, job_id: str, limit: float = 30) -> JobView:
        return wait_until(
            lambda: (view := self.store.existing(job_id)).status.terminal and view, what=f"{job_id} ends", limit=limit
        )

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def close(self) -> None:
        children = self.children() if self.process.poll() is None else []
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
        assert not [c for c in psutil.wait_procs(children, 10)[1] if c.is_running()]


@pytest.fixture
def worker_of(own_redis: RedisProcess) -> Iterator[Callable[..., WorkerUnderTest]]:
    made: list[WorkerUnderTest] = []

    def make(**jobs: float) -> WorkerUnderTest:
        made.append(WorkerUnderTest(own_redis, **jobs))
        return made[-1]

    yield make
    for worker in made:
        worker.close()
