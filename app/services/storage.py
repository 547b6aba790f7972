"""What holds the jobs and the cache: how full it is, and whether the jobs Redis may drop keys.

A role checks the eviction policy before it starts, but a Redis that is away at that moment, or is replaced later,
cannot be asked then. So the policy is looked at again before a submit, at most once in a while; what may drop an
accepted job gets none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis
import structlog

from app.errors import QueueUnavailable
from app.redis import REDIS_AWAY
from app.redis_errors import translated

_EVERY_SECONDS = 60.0
_RETRY_AFTER = 30.0

_log = structlog.get_logger(__name__)


class Storage:
    """Both roles.

    Args:
        jobs, cache: a client of each.
        monotonic: seconds.
    """

    def __init__(
        self, jobs: redis.Redis, cache: redis.Redis, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._roles = {"jobs": jobs, "cache": cache}
        self._monotonic = monotonic
        self._good_until = float("-inf")

    def check(self) -> None:
        """Ask for the jobs role's eviction policy, unless it was good a short while ago.

        Raises:
            QueueUnavailable: it may drop keys, or does not answer.
        """
        if self._monotonic() < self._good_until:
            return
        with translated():
            policy = _memory(self._roles["jobs"]).get("maxmemory_policy")
        if policy != "noeviction":
            _log.error("redis_may_drop_jobs", policy=policy)
            raise QueueUnavailable("the queue's storage may drop jobs, so none is accepted", retry_after=_RETRY_AFTER)
        self._good_until = self._monotonic() + _EVERY_SECONDS

    def ratios(self) -> dict[str, float]:
        """Used memory of each role as a share of its limit (without a limit, of the machine's); those that answer."""
        found = {}
        for role, client in self._roles.items():
            try:
                memory = _memory(client)
            except (*REDIS_AWAY, redis.RedisError):
                continue
            limit = int(memory.get("maxmemory") or 0) or int(memory.get("total_system_memory") or 0)
            if limit:
                found[role] = int(memory["used_memory"]) / limit
        return found


def _memory(client: redis.Redis) -> dict[str, Any]:
    return client.info("memory")
