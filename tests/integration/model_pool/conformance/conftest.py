"""Each engine as a real process, one at a time, supervised as in earnest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from model_pool import engines
from model_pool.client import EngineClient
from model_pool.health import HealthPolicy
from model_pool.instance import Instance, InstanceState
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
    running = Served(subject, tmp_path_factory.mktemp("run"))
    try:
        assert running.ready.wait(_START_SECONDS), "the engine has not become ready"
        yield running
    finally:
        running.close()
