"""What must hold before a role starts: the right Redis, room on the disk, a free port. Each refusal names the cure."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from app.up import ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OLDEST = (6, 2)
_ROOM_BYTES = 500 * 1024 * 1024


class PreflightError(Exception):
    """Starting would end badly; the message says why and what to do."""


def check_jobs_redis(info: Mapping[str, Any], durability: str = "process") -> list[str]:
    """Judge the jobs role by its `INFO` (and `appendfsync`); returns warnings.

    Raises:
        PreflightError: it is older than 6.2, a cluster, may drop keys when its memory is full, or does not keep what
            `durability` promises.
    """
    _check_version("jobs", info)
    if int(info.get("cluster_enabled", 0)):
        raise PreflightError(
            "redis.jobs_url names a Redis Cluster, whose scripts cannot touch several keys: use a plain one"
        )
    policy = info.get("maxmemory_policy")
    if policy != "noeviction":
        raise PreflightError(
            f"redis.jobs_url names a Redis whose maxmemory-policy is {policy!r}: it would drop accepted jobs when its "
            "memory is full. Set `maxmemory-policy noeviction` there, or name another Redis."
        )
    appends = bool(int(info.get("aof_enabled", 0)))
    if durability == "machine" and not (appends and info.get("appendfsync", "") in {"always", ""}):
        raise PreflightError(
            'redis.durability is "machine", but the jobs Redis does not write through to its disk: set `appendonly '
            'yes` and `appendfsync always` there, or redis.durability = "process".'
        )
    if not appends:
        return [
            "the jobs Redis has no append-only file: accepted jobs are lost when it restarts (set `appendonly yes`)"
        ]
    if durability == "replicated" and not int(info.get("connected_slaves", 0)):
        return ['redis.durability is "replicated", but the jobs Redis has no replica: submits are refused without one']
    return []


def check_cache_redis(info: Mapping[str, Any]) -> list[str]:
    """Judge the cache role by its `INFO`; returns warnings: a cache that is full for ever is only a bad cache."""
    _check_version("cache", info)
    policy = str(info.get("maxmemory_policy"))
    if policy.startswith(("allkeys", "volatile")):
        return []
    return [f"the cache Redis has maxmemory-policy {policy!r}: once full it stores nothing new (set `allkeys-lru`)"]


def check_port(what: str, host: str, port: int, cure: str) -> None:
    """Refuse to start on a port that is taken.

    Raises:
        PreflightError: somebody listens there.
    """
    if not ports.is_free(host, port):
        raise PreflightError(f"{what} cannot listen on {host}:{port}: the port is taken. {cure}")


def check_disk(folder: Path) -> None:
    """Refuse a data folder on a full disk: Redis stops accepting writes there.

    Raises:
        PreflightError: less than 500 MB are free.
    """
    free = shutil.disk_usage(folder).free
    if free < _ROOM_BYTES:
        raise PreflightError(
            f"only {free // 2**20} MB are free for {folder}: make room for 500 MB or give another --data"
        )


def _check_version(role: str, info: Mapping[str, Any]) -> None:
    version = str(info.get("redis_version", "0.0"))
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < _OLDEST:
        raise PreflightError(f"redis.{role}_url names Redis {version}: 6.2 is the oldest that works")
