"""One worker process against a Redis of the benchmark's own, started by the command line of `posthouse worker`."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app import settings as configuration
from app.settings import Settings
from app.up import entrypoints
from tests.support.waiting import wait_until

MODEL = "paced"
REAL_APP = "workers.main"
BARE_APP = "benchmarks.support.bare_celery"
SPAN_KEY = "bench:span"


def configure(folder: Path, redis_url: str, *, concurrency: int) -> Path:
    """Write a posthouse.toml with one paced model that costs nothing; returns its path."""
    file = folder / "posthouse.toml"
    file.write_text(
        f'data_dir = "{folder / "data"}"\n'
        f'[redis]\njobs_url = "{redis_url}"\n'
        f'[models.{MODEL}]\nengine = "paced"\nmax_concurrency = {concurrency}\n'
        "options = { ttft_ms = 0, tpot_ms = 0 }\n"
    )
    return file


def settings_of(config: Path) -> Settings:
    """The settings in a benchmark's own file."""
    configuration.use_config_file(config)
    return configuration.load()


@dataclass(frozen=True)
class Worker:
    """A running worker and where its log is."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait(self, done: Callable[[], bool], *, what: str, limit: float) -> None:
        """Wait until `done`; a worker that ends before is an error that shows its log."""

        def look() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"the worker ended early:\n{self.log.read_text()[-3000:]}")
            return done()

        wait_until(look, what=what, limit=limit, every=0.25)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def running(config: Path, celery_app: str, *, slot: int = 0) -> Iterator[Worker]:
    """A GPU worker; another Celery app than the real one gets the same pool, queues and options."""
    command = entrypoints.gpu_worker(settings_of(config), MODEL, slot)
    words = [celery_app if word == REAL_APP else word for word in command]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("POSTHOUSE_")} | {
        "POSTHOUSE_CONFIG": str(config),
        "POSTHOUSE_WORKER__MODEL": MODEL,
        "POSTHOUSE_WORKER__SLOT": str(slot),
    }
    log = config.parent / f"worker.{slot}.log"
    with log.open("ab") as out:
        worker = Worker(subprocess.Popen(words, env=environment, stdout=out, stderr=subprocess.STDOUT), log)
    try:
        yield worker
    finally:
        worker.stop()
