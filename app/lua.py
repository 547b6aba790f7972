"""Lua scripts as files: read once, composed from named parts, called by SHA.

A script file starts with a header that says what it does and lists its keys; `-- include: NAME` pulls in
`lib/NAME.lua` once, before the script's own text. Redis forgets scripts when it restarts: NOSCRIPT means that nothing
of the script ran, so loading it and calling again is safe.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError, ResponseError

from app.redis import BatchLink

_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)

# MISCONF: the disk takes no more writes. Like memory that is full, it may have room again.
_INNER: dict[str, type[ResponseError]] = {
    "OOM": OutOfMemoryError,
    "MISCONF": OutOfMemoryError,
    "READONLY": ReadOnlyError,
}

Call = tuple[str, Sequence[Any]]


class ScriptBook:
    """All scripts below a folder, composed; `book[name]` is the text, `book.sha(name)` its SHA-1."""

    def __init__(self, *folders: Path) -> None:
        self._texts: dict[str, str] = {}
        for folder in folders:
            for file in sorted(folder.glob("*.lua")):
                self._texts[file.stem] = _compose(file)
        self._shas = {n: hashlib.sha1(t.encode(), usedforsecurity=False).hexdigest() for n, t in self._texts.items()}

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def sha(self, name: str) -> str:
        return self._shas[name]


def _compose(file: Path) -> str:
    seen: list[str] = []
    parts: list[str] = []

    def add(path: Path) -> None:
        text = path.read_text()
        for name in _INCLUDE.findall(text):
            if name not in seen:
                seen.append(name)
                add(path.parent / ("" if path.parent.name == "lib" else "lib") / f"{name}.lua")
        parts.append(text)

    add(file)
    return "\n".join(parts)


def unwrapped(error: ResponseError) -> ResponseError:
    """The error of a command inside a script, as the command itself would have raised it.

    Redis 7 passes it on as it is; 6.2 wraps it into `ERR Error running script …: -OOM …`.
    """
    for code, kind in _INNER.items():
        if f"-{code} " in str(error) or str(error).startswith(f"{code} "):
            return kind(str(error))
    return error


class Scripts:
    """Calls scripts through a synchronous client. Redis errors pass through unchanged."""

    def __init__(self, client: redis.Redis, book: ScriptBook) -> None:
        self._client = client
        self._book = book

    def call(self, name: str, *args: Any) -> Any:
        """Run one script and return its reply (strings decoded, integers as int)."""
        try:
            return self._call(name, *args)
        except ResponseError as error:
            raise unwrapped(error) from None

    def _call(self, name: str, *args: Any) -> Any:
        try:
            return self._client.evalsha(self._book.sha(name), 0, *args)
        except NoScriptError:
            return self._client.eval(self._book[name], 0, *args)

    def call_confirmed(self, name: str, *args: Any, within_ms: int) -> tuple[Any, int]:
        """Run one script; its reply, and how many replicas had what it wrote within that time.

        Both go out on one connection, because WAIT speaks of its own connection's writes: on another one it answers 1
        although the replica is frozen.
        """
        reply, replicas = self._confirmed(("EVALSHA", self._book.sha(name), 0, *args), within_ms)
        if isinstance(reply, NoScriptError):
            reply, replicas = self._confirmed(("EVAL", self._book[name], 0, *args), within_ms)
        if isinstance(reply, ResponseError):
            raise unwrapped(reply)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(replicas, Exception):
            raise replicas
        return reply, int(replicas)

    def _confirmed(self, command: tuple[Any, ...], within_ms: int) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        pipeline.execute_command("WAIT", 1, within_ms)  # type: ignore[no-untyped-call]
        return list(pipeline.execute(raise_on_error=False))


class AsyncScripts:
    """Calls scripts through an asyncio client, alone or many in one round trip."""

    def __init__(self, client: redis.asyncio.Redis, book: ScriptBook) -> None:
        self._client = client
        self._batches = BatchLink(client)
        self._book = book

    async def call(self, name: str, *args: Any) -> Any:
        """Run one script and return its reply."""
        try:
            return await self._call(name, *args)
        except ResponseError as error:
            raise unwrapped(error) from None

    async def _call(self, name: str, *args: Any) -> Any:
        try:
            return await self._client.evalsha(self._book.sha(name), 0, *args)
        except NoScriptError:
            return await self._client.eval(self._book[name], 0, *args)

    async def call_many(self, calls: Sequence[Call], *, confirm_ms: int = 0) -> tuple[list[Any], int]:
        """Run many scripts in one round trip, in order, one caller at a time; a script's own error stands in its place.

        With `confirm_ms` the second value is how many replicas had all that was written within that time.

        Raises:
            redis.RedisError: the round trip itself failed; whether the scripts ran is unknown.
        """
        replies, replicas = await self._round(calls, confirm_ms)
        missing = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if missing:
            for name in {calls[i][0] for i in missing}:
                await self._client.script_load(self._book[name])
            again, replicas = await self._round([calls[i] for i in missing], confirm_ms)
            for i, reply in zip(missing, again, strict=True):
                replies[i] = reply
        return [unwrapped(reply) if isinstance(reply, ResponseError) else reply for reply in replies], replicas

    async def _round(self, calls: Sequence[Call], confirm_ms: int) -> tuple[list[Any], int]:
        commands: list[tuple[Any, ...]] = [("EVALSHA", self._book.sha(name), 0, *args) for name, args in calls]
        if not confirm_ms:
            return await self._batches.send(commands), 0
        *replies, replicas = await self._batches.send([*commands, ("WAIT", 1, confirm_ms)])
        return replies, replicas if isinstance(replicas, int) else 0
