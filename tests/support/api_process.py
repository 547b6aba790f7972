"""A real API process for tests: gunicorn with the configuration that ships."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
from cryptography.fernet import Fernet

from tests.support.redis_process import free_port
from tests.support.waiting import wait_until

DEV_KEY = "a-development-key"


class ApiProcess:
    """One gunicorn with one worker on a free loopback port; `settings` are environment overrides."""

    def __init__(self, redis_url: str, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.NamedTemporaryFile(suffix=".log", delete=False)  # noqa: SIM115 -- closed in close()
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("POSTHOUSE_")},
            "POSTHOUSE_REDIS__JOBS_URL": redis_url,
            "POSTHOUSE_API__PORT": str(self.port),
            "POSTHOUSE_API__DEV_KEY": DEV_KEY,
            "POSTHOUSE_SECRET_KEY": Fernet.generate_key().decode(),
            "POSTHOUSE_LOG_FORMAT": "json",
            "POSTHOUSE_MODELS": json.dumps({"m": {"engine": "paced", "context_length": 2048}}),
            **settings,
        }
        command = [sys.executable, "-m", "gunicorn", "--config", "python:app.api.gunicorn_conf",
                   "app.wsgi:application()"]  # fmt: skip
        self.process = subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)
        wait_until(self._answers, what="the API answers")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log()
        try:
            return httpx.get(f"{self.url}/healthz", timeout=2).status_code == 200
        except httpx.TransportError:
            return False

    def log(self) -> str:
        return Path(self._log.name).read_text()

    def http(self, *, key: str | None = DEV_KEY, **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=options.pop("timeout", 30), **options)

    def worker_pid(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(15)
        self._log.close()
        Path(self._log.name).unlink(missing_ok=True)
