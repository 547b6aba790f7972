"""The load generator: so many clients, each sending one request after another; a process of its own.

Run as `python -m benchmarks.support.load`: reads a plan as JSON on stdin, prints the answers as JSON on stdout.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.support import apart
from benchmarks.support.exchange import Answer, Recorder, answer_of


@dataclass(frozen=True)
class Target:
    """Where requests go: a Unix socket, or a port of this machine; and with what key."""

    uds: str = ""
    port: int = 0
    key: str = ""


@dataclass(frozen=True)
class Plan:
    """What to send.

    Attributes:
        bodies: one request each, sent in this order.
        clients: how many are under way at once.
        spread: seconds over which the clients begin, evenly; 0: all at the same moment.
    """

    target: Target
    bodies: list[dict[str, Any]]
    clients: int
    spread: float = 0.0
    path: str = "/v1/chat/completions"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        found = json.loads(text)
        return cls(**{**found, "target": Target(**found["target"])})


def run(plan: Plan) -> list[Answer]:
    """Run a plan in a process of its own; answers in the order in which they ended."""
    found = apart.run("benchmarks.support.load", plan)
    return [Answer(**answer) for answer in found]


@dataclass
class _Load:
    plan: Plan
    requests: Iterator[bytes]
    records: list[tuple[Recorder, float, float]] = field(default_factory=list)

    async def run(self) -> None:
        """All clients to their end."""
        step = self.plan.spread / self.plan.clients
        begin = time.monotonic() + 0.3  # by then all first connections stand
        await asyncio.gather(*(self._client(begin + number * step) for number in range(self.plan.clients)))

    async def _client(self, begin: float) -> None:
        for request in self.requests:
            transport, recorder = await self._connect()
            await asyncio.sleep(begin - time.monotonic())
            transport.write(request)
            sent = time.monotonic()
            await recorder.ended
            self.records.append((recorder, sent, time.monotonic()))

    async def _connect(self) -> tuple[asyncio.WriteTransport, Recorder]:
        loop, target = asyncio.get_running_loop(), self.plan.target
        if target.uds:
            return await loop.create_unix_connection(Recorder, target.uds)  # type: ignore[return-value]
        return await loop.create_connection(Recorder, "127.0.0.1", target.port)  # type: ignore[return-value]


def _requests(plan: Plan) -> Iterator[bytes]:
    for body in plan.bodies:
        content = json.dumps(body).encode()
        head = (
            f"POST {plan.path} HTTP/1.1\r\nHost: benchmark\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {plan.target.key}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        yield head.encode() + content


def main() -> None:
    plan = Plan.from_json(sys.stdin.read())
    load = _Load(plan, iter(list(_requests(plan))))
    gc.disable()  # a pause of ours would count as the stack's
    asyncio.run(load.run())
    json.dump([dataclasses.asdict(answer_of(*record)) for record in load.records], sys.stdout)


if __name__ == "__main__":
    main()
