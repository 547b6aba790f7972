"""Asks both Redis roles for their `INFO` and lets `preflight` judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import AuthenticationError

from app.redis import REDIS_AWAY, jobs_client
from app.up import preflight

if TYPE_CHECKING:
    from app.settings import Settings

_TIMEOUT_SECONDS = 2.0


def check(settings: Settings) -> list[str]:
    """Judge both roles as they are configured; returns warnings, one of them for each role that does not answer.

    Raises:
        PreflightError: a role is not fit for use.
    """
    jobs = _info("jobs", settings.redis.jobs_url.get_secret_value())
    cache = _info("cache", settings.redis.cache_url.get_secret_value())
    return [
        *(["the jobs Redis does not answer"] if jobs is None else preflight.check_jobs_redis(jobs)),
        *(["the cache Redis does not answer"] if cache is None else preflight.check_cache_redis(cache)),
    ]


def answers(url: str) -> bool:
    """Whether the server at `url` is up and has loaded its data."""
    return _info("", url) is not None


def _info(role: str, url: str) -> dict[str, Any] | None:
    client = jobs_client(url, timeout=_TIMEOUT_SECONDS, max_connections=1)
    try:
        client.ping()  # INFO is answered while the data is still being loaded, PING is not
        return client.info()
    except AuthenticationError as error:
        raise preflight.PreflightError(f"redis.{role}_url: the server refuses the password ({error})") from None
    except REDIS_AWAY:
        return None
    finally:
        client.connection_pool.disconnect()
