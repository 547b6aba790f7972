"""A stand-in engine and client for `standin_server.py`, and questions about processes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from model_pool import procfs
from model_pool.health import HealthPolicy
from model_pool.spec import InstanceSpec, ModelSpec
from tests.support.waiting import wait_until

SERVER = Path(__file__).with_name("standin_server.py")
QUICK = HealthPolicy(
    probe_seconds=0.3,
    probe_timeout_seconds=1.0,
    failures=2,
    start_seconds=20,
    backoff_seconds=0.05,
    max_backoff_seconds=0.2,
)


class StandInEngine:
    name = "standin"
    request_fields = frozenset({"model"})
    continues_by_ids = False
    logs_stats = False

    def command(self, spec):
        return [sys.executable, str(SERVER), str(spec.socket), *spec.model.options.get("how", ())]

    def environment(self, spec):
        return {"STANDIN": spec.id}

    def check(self, spec):
        pass


class StandInClient:
    def __init__(self, spec) -> None:
        self._socket = spec.socket
        self.closed = False
        self.probes = 0  # that were answered

    async def probe(self, *, timeout):  # noqa: ARG002, ASYNC109 -- the real client's signature
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(b"well?\n")
            if await reader.readline() != b"yes\n":
                raise ConnectionError
            self.probes += 1
        finally:
            writer.close()

    async def close(self):
        self.closed = True


def standin_spec(run_dir, *how: str):
    return InstanceSpec(ModelSpec("m", "standin", options={"how": how}), 0, "cpu", Path(run_dir))


def alive(pid):
    process = procfs.look_up(pid)
    return process is not None and not process.ended


def wait_gone(*pids: int, limit=15):
    wait_until(lambda: not any(alive(pid) for pid in pids), what=f"the end of processes {pids}", limit=limit)


def pids_of(spec, count):
    """Pids that the stand-in server wrote, once there are `count`."""
    file = Path(f"{spec.socket}.pids")

    def written() -> list[int] | None:
        pids = [int(line) for line in file.read_text().split()] if file.exists() else []
        return pids if len(pids) == count else None

    return wait_until(written, what=f"{count} pids in {file}")
