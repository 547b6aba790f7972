"""A load of whole answers: clients with connections that stay open, each asking one question after the other.

A process of its own: reads a plan as JSON on stdin, prints each answer's seconds as JSON on stdout.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp

from benchmarks.support import apart


@dataclass(frozen=True)
class Questions:
    """What to ask: `bodies` in this order, by so many `clients` at once, on a port or a Unix socket."""

    bodies: list[dict[str, Any]]
    clients: int
    port: int = 0
    uds: str = ""
    key: str = ""


@dataclass(frozen=True)
class Asked:
    """How long it took: all of it, and each answer. Seconds."""

    span: float
    seconds: list[float]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.span


def run(questions: Questions) -> Asked:
    """Ask in a process of its own. Any answer but a 200 is an error."""
    found = apart.run("benchmarks.support.asking", questions)
    return Asked(**found)


async def _ask(questions: Questions) -> Asked:
    connector = aiohttp.UnixConnector(questions.uds, limit=0) if questions.uds else aiohttp.TCPConnector(limit=0)
    url = f"http://{'engine' if questions.uds else f'127.0.0.1:{questions.port}'}/v1/chat/completions"
    waiting, seconds = iter([json.dumps(body).encode() for body in questions.bodies]), []
    headers = {"Authorization": f"Bearer {questions.key}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        began = time.monotonic()
        await asyncio.gather(*(_client(session, url, waiting, seconds) for _ in range(questions.clients)))
        return Asked(time.monotonic() - began, seconds)


async def _client(session: aiohttp.ClientSession, url: str, waiting: Iterator[bytes], seconds: list[float]) -> None:
    for body in waiting:
        sent = time.monotonic()
        async with session.post(url, data=body) as response:
            text = await response.read()
            if response.status != 200:
                raise RuntimeError(f"{response.status}: {text[:300]!r}")
        seconds.append(time.monotonic() - sent)


def main() -> None:
    asked = asyncio.run(_ask(Questions(**json.load(sys.stdin))))
    json.dump(dataclasses.asdict(asked), sys.stdout)


if __name__ == "__main__":
    main()
