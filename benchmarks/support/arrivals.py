"""An open loop: requests go out at a fixed rate, whether or not the earlier ones have been answered.

A process of its own: reads a plan as JSON on stdin, prints what became of each request as JSON on stdout. Times count
from the moment at which a request was due, so that a load generator that is late makes the figures worse, not better.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import aiohttp

from benchmarks.support import apart

_HEADERS = ("x-posthouse-eta", "retry-after")


@dataclass(frozen=True)
class Arrivals:
    """So many requests a second for so many seconds, all with this body; `path` of a port of this machine."""

    port: int
    key: str
    path: str
    body: dict[str, Any]
    per_second: float
    seconds: float


@dataclass(frozen=True)
class Reply:
    """What one request got.

    Attributes:
        due: seconds after the first request.
        seconds: from when it was due until its answer was read.
        job_id: "" unless it was accepted.
        code: of the error, "" without one.
        eta: the expected wait it was told, seconds; None when it was told none.
        retry_after: seconds; 0 without.
    """

    due: float
    seconds: float
    status: int
    job_id: str
    code: str
    eta: float | None
    retry_after: int


def run(arrivals: Arrivals) -> list[Reply]:
    """Send them from a process of its own; replies in the order in which they were due."""
    found = apart.run("benchmarks.support.arrivals", arrivals)
    return [Reply(**reply) for reply in found]


async def _send_all(arrivals: Arrivals) -> list[Reply]:
    headers = {"Authorization": f"Bearer {arrivals.key}", "Content-Type": "application/json"}
    body, running = json.dumps(arrivals.body).encode(), []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:
        url = f"http://127.0.0.1:{arrivals.port}{arrivals.path}"
        began = time.monotonic()
        for number in range(round(arrivals.per_second * arrivals.seconds)):
            due = number / arrivals.per_second
            await asyncio.sleep(began + due - time.monotonic())
            running.append(asyncio.create_task(_send(session, url, body, began, due)))
        raw = await asyncio.gather(*running)
    return [_read(*answer) for answer in raw]


_Raw = tuple[float, float, int, bytes, dict[str, str]]


async def _send(session: aiohttp.ClientSession, url: str, body: bytes, began: float, due: float) -> _Raw:
    async with session.post(url, data=body) as response:
        text = await response.read()
        seconds = time.monotonic() - began - due
        return due, seconds, response.status, text, {name: response.headers.get(name, "") for name in _HEADERS}


def _read(due: float, seconds: float, status: int, text: bytes, headers: dict[str, str]) -> Reply:
    """Parsed once the load is over, since it shares the cores with what it measures."""
    found = json.loads(text)
    eta, retry_after = (headers[name] for name in _HEADERS)
    code = (found.get("error") or {}).get("code") or ""
    return Reply(due, seconds, status, found.get("id", ""), code, float(eta) if eta else None, int(retry_after or 0))


def main() -> None:
    arrivals = Arrivals(**json.load(sys.stdin))
    gc.disable()  # a pause of ours would count as the stack's
    json.dump([dataclasses.asdict(reply) for reply in asyncio.run(_send_all(arrivals))], sys.stdout)


if __name__ == "__main__":
    main()
