"""Connections that follow a failover: each asks the Sentinels who the master is, and makes sure that it answers as one.

A pool hands out a connection after calling its `connect`, so one that still leads to a former master is noticed there,
and a pool full of them costs no timeout each. A master that was demoted while a connection lived says READONLY: that
counts as a lost connection, because the same command may succeed on the next one.

Source: "Guidelines for Redis clients with support for Redis Sentinel" (ask, connect, check ROLE, ask again on a loss).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import redis
import redis.asyncio
from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.connection import Connection
from redis.sentinel import Sentinel

Address = tuple[str, int]


@dataclass
class Master:
    """The last known address of a service's master; shared by all connections of a pool."""

    sentinel: Any
    service: str
    address: Address | None = field(default=None)

    @classmethod
    def known_to(cls, sentinels: tuple[Address, ...], service: str, **options: Any) -> Master:
        """For connections that block."""
        return cls(Sentinel(list(sentinels), sentinel_kwargs=options), service)  # type: ignore[no-untyped-call]

    @classmethod
    def known_to_async(cls, sentinels: tuple[Address, ...], service: str, **options: Any) -> Master:
        """For connections of an event loop."""
        return cls(AsyncSentinel(list(sentinels), sentinel_kwargs=options), service)  # type: ignore[no-untyped-call]


class _Placed(Protocol):
    host: str
    port: int


def _elsewhere(connection: _Placed, master: Master) -> bool:
    return master.address is not None and (connection.host, connection.port) != master.address


def _check_role(reply: Any) -> None:
    if not isinstance(reply, list) or str(reply[0]) != "master":
        raise redis.ConnectionError("the Sentinels named a server that is no master (yet)")


def _demoted(error: redis.ResponseError) -> bool:
    return isinstance(error, redis.ReadOnlyError) or "READONLY" in str(error)  # Redis 6.2 wraps errors of scripts


class FollowingConnection(Connection):
    """A blocking connection to whoever is master."""

    def __init__(self, *, master: Master, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self._master = master

    def connect(self) -> None:
        if self._sock is not None and _elsewhere(self, self._master):
            self.disconnect()
        super().connect()  # type: ignore[no-untyped-call]

    def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        if self._sock is None:
            self.host, self.port = self._master.address = self._master.sentinel.discover_master(self._master.service)
        super().connect_check_health(check_health, retry_socket_connect)

    def on_connect_check_health(self, check_health: bool = True) -> None:
        super().on_connect_check_health(check_health=check_health)
        self.send_command("ROLE", check_health=False)  # type: ignore[no-untyped-call]
        _check_role(self.read_response())

    def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().read_response(*args, **kwargs)
        except redis.ResponseError as error:
            if not _demoted(error):
                raise
            self.disconnect()  # type: ignore[no-untyped-call]
            raise redis.ConnectionError("the master has changed") from None


class AsyncFollowingConnection(AsyncConnection):
    """The asyncio twin of `FollowingConnection`."""

    def __init__(self, *, master: Master, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._master = master

    async def connect(self) -> None:
        if self.is_connected and _elsewhere(self, self._master):
            await self.disconnect()
        await super().connect()  # type: ignore[no-untyped-call]

    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        if not self.is_connected:
            found = await self._master.sentinel.discover_master(self._master.service)
            self.host, self.port = self._master.address = found
        await super().connect_check_health(check_health, retry_socket_connect)

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        await super().on_connect_check_health(check_health=check_health)
        await self.send_command("ROLE", check_health=False)
        _check_role(await self.read_response())

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().read_response(*args, **kwargs)
        except redis.ResponseError as error:
            if not _demoted(error):
                raise
            await self.disconnect(nowait=True)
            raise redis.ConnectionError("the master has changed") from None
