"""Each engine as a real process, one at a time, supervised as in earnest."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from model_pool import engines
from model_pool.client import EngineClient
from model_pool.health import HealthPolicy
from model_pool.instance import Instance, InstanceState
from model_pool.ports import HOST, port_of
from tests.integration.model_pool.conformance.subjects import SUBJECTS, Subject

_START_SECONDS = 300
_LIMIT_SECONDS = 240
PATIENT = HealthPolicy(probe_seconds=3600, probe_timeout_seconds=60, start_seconds=_START_SECONDS)


class Served:
    """One engine with the demo model, and a loop on which its client lives."""

    def __init__(self, subject: Subject, run_dir) -> None:
        self.subject = subject
        self.spec = subject.spec(run_dir)
        self.engine = engines.get(subject.engine)
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.instance = self.call(self._made())
        self._running: Future[None] = asyncio.run_coroutine_threadsafe(self.instance.run(), self.loop)

    async def _made(self) -> Instance:
        return Instance(
            self.spec,
            self.engine,
            health=PATIENT,
            client_factory=lambda spec: EngineClient.at(self.engine.endpoint(spec)),
            on_state=lambda state: self.ready.set() if state is InstanceState.READY else self.ready.clear(),
        )

    @property
    def client(self) -> EngineClient:
        return self.instance.client

    @property
    def dialect(self):
        return self.engine.endpoint(self.spec).dialect

    def call(self, story: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine where the client lives."""
        return asyncio.run_coroutine_threadsafe(story, self.loop).result(_LIMIT_SECONDS)

    def close(self) -> None:
        self.call(self.instance.stop(3))
        self._running.result(_LIMIT_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


def _param(name: str):
    marks = [] if name == "paced" else [pytest.mark.slow, pytest.mark.timeout(900)]
    return pytest.param(name, marks=marks, id=name)


@pytest.fixture(scope="module", params=[_param(name) for name in SUBJECTS])
def served(request, tmp_path_factory) -> Iterator[Served]:
    subject = SUBJECTS[request.param]
    why = "" if request.param == "paced" else subject.missing()
    if why:
        pytest.skip(why)
    with behind(subject, tmp_path_factory.mktemp("behind")) as more:
        options = {**subject.options, **more}
        running = Served(replace(subject, options=options), tmp_path_factory.mktemp("run"))
        try:
            assert running.ready.wait(_START_SECONDS), "the engine has not become ready"
            yield running
        finally:
            running.close()


@contextmanager
def behind(subject: Subject, run_dir) -> Iterator[dict[str, str]]:
    """The server that an engine asks which starts none; the options that lead to it."""
    if not subject.behind:
        yield {}
        return
    spec = SUBJECTS[subject.behind].spec(run_dir)
    engine, port = engines.get(subject.behind), port_of(spec)
    command = engine.command(spec)
    at = command.index("--uds")
    command[at : at + 2] = ["--host", HOST, "--port", str(port)]
    server = subprocess.Popen(command, env={**os.environ, **engine.environment(spec)}, start_new_session=True)
    try:
        yield {"url": f"http://{HOST}:{port}/v1"}
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)
