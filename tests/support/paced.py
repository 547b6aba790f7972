"""A paced server as a real process on a Unix socket, and plain HTTP to it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.waiting import wait_until

MODEL = "paced"


class PacedProcess:
    """One server; `folder` holds its socket (unless `--port` says otherwise), `data` the words shared with others."""

    def __init__(self, folder: Path, *options: str, data: Path | None = None, name: str = "s") -> None:
        self.socket = folder / name
        self._log = folder / f"{name}.log"
        self._port = int(options[options.index("--port") + 1]) if "--port" in options else None
        place = [] if self._port else ["--uds", self.socket]
        words = [*place, "--model", MODEL, "--data", data or folder / "data", *options]
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "model_pool.servers.paced", *map(str, words)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_until(self._ready, what="the paced server listens")

    def log(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log()
        return "paced_server_started" in self.log() and self._answers()

    def _answers(self) -> bool:
        import socket

        if self._port:
            with socket.socket() as line:
                return line.connect_ex(("127.0.0.1", self._port)) == 0
        with socket.socket(socket.AF_UNIX) as line:
            return line.connect_ex(str(self.socket)) == 0


@dataclass
class Reply:
    """What came of one call: the status, the JSON body, or the events of a stream and whether it broke off."""

    status: int
    body: Any = None
    events: list[Any] = field(default_factory=list)
    broken: bool = False

    @property
    def choices(self) -> list[dict[str, Any]]:
        return [event["choices"][0] for event in self.events if event != "[DONE]" and event.get("choices")]

    @property
    def text(self) -> str:
        if not self.events:
            choice = self.body["choices"][0]
            return choice["text"] if "text" in choice else choice["message"]["content"]
        return "".join(choice["text"] if "text" in choice else choice["delta"]["content"] for choice in self.choices)

    @property
    def token_ids(self) -> list[int]:
        found = self.choices if self.events else self.body["choices"]
        return [token_id for choice in found for token_id in choice.get("token_ids") or ()]

    @property
    def finish_reason(self) -> str | None:
        return (self.choices or self.body["choices"])[-1]["finish_reason"]


class Caller:
    """Plain HTTP to a paced server, without the client that is tested elsewhere."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(self, path: str) -> Reply:
        async with self.session.get(f"http://paced{path}") as response:
            return Reply(response.status, await response.json())

    async def post(self, path: str, body: Any) -> Reply:
        async with self.session.post(f"http://paced{path}", json=body) as response:
            if not response.content_type.startswith("text/event-stream"):
                return Reply(response.status, await response.json())
            raw, broken = b"", False
            try:
                async for piece in response.content.iter_any():
                    raw += piece
            except aiohttp.ClientPayloadError:
                broken = True
            return Reply(response.status, events=list(events_of(raw)), broken=broken)

    async def chat(self, content: str, **fields: Any) -> Reply:
        messages = [{"role": "user", "content": content}]
        return await self.post("/v1/chat/completions", {"model": MODEL, "messages": messages, **fields})

    async def stats(self) -> dict[str, int]:
        return (await self.get("/stats")).body


def events_of(raw: bytes) -> Iterator[Any]:
    for block in raw.decode().split("\n\n")[:-1]:
        data = block.removeprefix("data: ")
        yield data if data == "[DONE]" else json.loads(data)


@contextlib.asynccontextmanager
async def calling(server: PacedProcess) -> AsyncIterator[Caller]:
    connector = aiohttp.UnixConnector(str(server.socket), limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Caller(session)
