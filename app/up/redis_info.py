"""Asks both Redis roles for their `INFO` and lets `preflight` judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import redis
from redis.exceptions import AuthenticationError

from app.redis import REDIS_AWAY, Server, cache_server, jobs_client, jobs_server
from app.up import preflight

if TYPE_CHECKING:
    from app.settings import Settings

_TIMEOUT_SECONDS = 2.0


def check(settings: Settings) -> list[str]:
    """Judge both roles as they are configured; returns warnings, one of them for each role that does not answer.

    Raises:
        PreflightError: a role is not fit for use.
    """
    jobs = _info("jobs", jobs_server(settings.redis))
    cache = _info("cache", cache_server(settings.redis))
    durability = settings.redis.durability
    return [
        *(["the jobs Redis does not answer"] if jobs is None else preflight.check_jobs_redis(jobs, durability)),
        *(["the cache Redis does not answer"] if cache is None else preflight.check_cache_redis(cache)),
    ]


def answers(server: Server | str) -> bool:
    """Whether a server is up and has loaded its data."""
    return _info("", server) is not None


def _info(role: str, server: Server | str) -> dict[str, Any] | None:
    client = jobs_client(server, timeout=_TIMEOUT_SECONDS, max_connections=1)
    try:
        client.ping()  # INFO is answered while the data is still being loaded, PING is not
        found: dict[str, Any] = client.info()
        return found | {"appendfsync": _fsync(client)}
    except AuthenticationError as error:
        raise preflight.PreflightError(f"redis.{role}_url: the server refuses the password ({error})") from None
    except REDIS_AWAY:
        return None
    finally:
        client.connection_pool.disconnect()


def _fsync(client: redis.Redis) -> str:
    """`appendfsync` as the server has it; empty where CONFIG is forbidden, as with hosted Redis."""
    try:
        found = cast("dict[str, str]", client.config_get("appendfsync"))
    except redis.ResponseError:
        return ""
    return found.get("appendfsync", "")
