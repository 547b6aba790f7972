"""Kombu's Redis transport, with one client a channel for its commands.

Kombu makes a new client object for each message that it notes or acknowledges and for each event that it publishes,
on one pool of connections. Making the object takes longer than the command: a sixth of the processor time of Celery's
thread when jobs are short. A client is thread-safe and holds nothing but the pool.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis


class _KeptClient:
    """Mixed into a channel class of kombu's."""

    pool: Any
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:  # made once by kombu itself, for the connection that waits for messages
            return super()._create_client(asynchronous=True)  # type: ignore[misc]
        if self._kept is None or self._kept.connection_pool is not self.pool:  # another pool after a lost connection
            self._kept = super()._create_client()  # type: ignore[misc]
        return self._kept


class RedisChannel(_KeptClient, redis.Channel):
    """Of `redis://` and `rediss://`."""


class SentinelChannel(_KeptClient, redis.SentinelChannel):
    """Of `sentinel://`."""


class RedisTransport(redis.Transport):
    Channel = RedisChannel


class SentinelTransport(redis.SentinelTransport):
    Channel = SentinelChannel


def install() -> None:
    """Let this process reach its broker through these; kombu chooses a transport by the scheme of the broker's URL."""
    redis_transport, sentinel_transport = f"{__name__}:RedisTransport", f"{__name__}:SentinelTransport"
    TRANSPORT_ALIASES.update(redis=redis_transport, rediss=redis_transport, sentinel=sentinel_transport)
