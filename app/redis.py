"""The only place that builds Redis clients: explicit timeouts, no hidden retries.

redis-py retries a failed command up to ten times by default, which turns a 0.3 s timeout into 7.5 s and can run a
command twice. Here a command is tried once; whoever calls decides what a failure means. RESP2 is spoken because 6.2
is the floor and server-assisted features are not used.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
import redis
import redis.asyncio
from gevent.monkey import get_original
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.redis_following import Address, AsyncFollowingConnection, FollowingConnection, Master
from app.sections import RedisSettings

# What a caller catches when Redis did not answer: refused, reset, timed out, loading after a restart.
REDIS_AWAY = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError, OSError)


_SENTINEL_TIMEOUT = 0.5
_poll = get_original("select", "poll")


@dataclass(frozen=True)
class Server:
    """Where one role is kept.

    Attributes:
        url: `redis://[:password@]host:port/db` or `unix://`; with Sentinels its host and port are not looked at.
        sentinels: who knows the master of `service`; none: `url` leads to it.
    """

    url: str
    sentinels: tuple[Address, ...] = ()
    service: str = ""
    sentinel_password: str = ""


def jobs_server(settings: RedisSettings) -> Server:
    """Where records and queues are."""
    return _server(settings, settings.jobs_url.get_secret_value(), settings.jobs_sentinels, settings.jobs_service)


def cache_server(settings: RedisSettings) -> Server:
    """Where answers are kept."""
    return _server(settings, settings.cache_url.get_secret_value(), settings.cache_sentinels, settings.cache_service)


def _server(settings: RedisSettings, url: str, sentinels: tuple[str, ...], service: str) -> Server:
    addresses = tuple((host, int(port)) for host, _, port in (entry.rpartition(":") for entry in sentinels))
    return Server(url, addresses, service, settings.sentinel_password.get_secret_value())


def jobs_client(server: Server | str, *, timeout: float, max_connections: int = 256) -> redis.Redis:
    """A synchronous client for the jobs role.

    Args:
        server: where it is, or just its URL.
        timeout: seconds for connecting and for each reply.
        max_connections: bound of the pool; a caller beyond it waits up to `timeout`.
    """
    found = _as_server(server)
    options = _options(timeout, Retry(NoBackoff(), 0)) | {"connection_class": PromptConnection}
    options |= _following(found, timeout)
    pool = redis.BlockingConnectionPool.from_url(found.url, max_connections=max_connections, timeout=timeout, **options)
    return redis.Redis(connection_pool=pool)


def async_jobs_client(server: Server | str, *, timeout: float, max_connections: int = 64) -> redis.asyncio.Redis:
    """The asyncio twin of `jobs_client`, for the worker's loop."""
    found = _as_server(server)
    options = _options(timeout, AsyncRetry(NoBackoff(), 0)) | _following_async(found, timeout)
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        found.url, max_connections=max_connections, timeout=timeout, **options
    )
    return redis.asyncio.Redis(connection_pool=pool)


class PromptConnection(redis.Connection):
    """A blocking connection that looks whether it is still clean by the kernel's own poll.

    redis-py looks each time a connection is taken out of the pool. Under gevent that would be a turn of its loop.
    """

    def can_read(self, timeout: float = 0) -> bool:
        reader = getattr(self._parser, "_reader", None)
        if timeout or self._sock is None or reader is None or reader.has_data():
            return bool(super().can_read(timeout))
        look = _poll()
        look.register(self._sock, select.POLLIN)
        return bool(look.poll(0)) and bool(super().can_read(timeout))  # data or an end: it tells which


class BatchLink:
    """One connection of an asyncio client for batches of commands, one batch at a time.

    redis-py's pipeline does the same for four times the CPU (80 µs against 20 for one command): it packs commands in
    Python, starts a task for each send and takes a connection out of a pool each time.
    """

    def __init__(self, client: redis.asyncio.Redis) -> None:
        pool = client.connection_pool
        self._timeout: float = pool.connection_kwargs["socket_timeout"]
        self._connection: Any = pool.connection_class(**{**pool.connection_kwargs, "socket_timeout": None})

    async def send(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send all and return their replies in order; a command's own error stands in its place.

        Raises:
            redis.RedisError, OSError: the round trip failed; whether the commands ran is unknown.
        """
        try:
            async with asyncio.timeout(self._timeout):
                packed = b"".join([hiredis.pack_command(command) for command in commands])
                await self._connection.send_packed_command(packed, check_health=False)
                return [await self._reply() for _ in commands]
        except BaseException as error:
            await self._connection.disconnect(nowait=True)  # replies that still come would answer the next batch
            if isinstance(error, TimeoutError):
                raise redis.TimeoutError("no reply in time") from None
            raise

    async def _reply(self) -> Any:
        try:
            return await self._connection.read_response()
        except redis.ResponseError as error:
            return error


class PubSubLink:
    """One connection for publish/subscribe: one thread (or greenlet) reads, any may send.

    A broken link is never mended behind its owner's back, because a silent reconnect would lose subscriptions.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._closed = False

    def send(self, *command: str) -> None:
        """Send SUBSCRIBE, UNSUBSCRIBE or PING; the replies come out of `read`."""
        if self._closed:
            raise redis.ConnectionError("the link is closed")
        self._connection.send_command(*command, check_health=False)

    def read(self, timeout: float) -> list[Any] | None:
        """The next message, or None when none came within `timeout` seconds."""
        try:
            found: Any = self._connection.read_response(timeout=timeout, disconnect_on_error=False)
        except redis.TimeoutError:
            return None
        return list(found) if isinstance(found, list) else []

    def close(self) -> None:
        self._closed = True
        self._connection.disconnect()


def pubsub_link(server: Server | str, *, timeout: float) -> PubSubLink:
    """A connected link for publish/subscribe; raises what `REDIS_AWAY` names when Redis does not answer."""
    found = _as_server(server)
    options = _options(timeout, Retry(NoBackoff(), 0)) | _following(found, timeout)
    connection: Any = redis.ConnectionPool.from_url(found.url, **options).make_connection()
    connection.connect()
    return PubSubLink(connection)


def _as_server(server: Server | str) -> Server:
    return Server(server) if isinstance(server, str) else server


def _following(server: Server, timeout: float) -> dict[str, Any]:
    """Options of a pool whose connections follow the master; none where no Sentinel is asked."""
    if not server.sentinels:
        return {}
    asking = _sentinel_options(server, timeout, Retry(NoBackoff(), 0))
    master = Master.known_to(server.sentinels, server.service, **asking)
    return {"connection_class": FollowingConnection, "master": master}


def _following_async(server: Server, timeout: float) -> dict[str, Any]:
    if not server.sentinels:
        return {}
    asking = _sentinel_options(server, timeout, AsyncRetry(NoBackoff(), 0))
    master = Master.known_to_async(server.sentinels, server.service, **asking)
    return {"connection_class": AsyncFollowingConnection, "master": master}


def _sentinel_options(server: Server, timeout: float, retry: Any) -> dict[str, Any]:
    return {**_options(min(timeout, _SENTINEL_TIMEOUT), retry), "password": server.sentinel_password or None}


def _options(timeout: float, retry: Any) -> dict[str, Any]:
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": retry,
        "retry_on_error": [],
        "protocol": 2,
        "decode_responses": True,
        "health_check_interval": 0,
        "client_name": "posthouse",
    }
