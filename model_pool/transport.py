"""HTTP to one engine's server: one session, its timeouts, and its errors translated."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from model_pool.errors import EngineBroken, EngineStalled, EngineUnreachable, failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

OK = 200
_READ_BUFFER = 1024 * 1024
_CONNECT_SECONDS = 5.0
# Shorter than the servers' own keep-alive (uvicorn's is 5 s): no request goes out on a connection that they close.
_KEEP_ALIVE_SECONDS = 3.0
_LARGEST_ANSWER = 16 * 1024 * 1024


class EngineTransport:
    """The session; opened by the first call, in the event loop that it then belongs to.

    Args:
        uds: path of the server's Unix socket, or None to go to `base_url`.
        base_url: scheme, host and port (and a path before `/v1`, if any).
        headers: sent along with every request.
    """

    def __init__(self, uds: Path | None, base_url: str, headers: Mapping[str, str]) -> None:
        self._uds = uds
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._opened: aiohttp.ClientSession | None = None

    async def open(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], deadline: float
    ) -> aiohttp.ClientResponse:
        """Post `body` and return the response once its headers say 200; the caller closes it.

        Args:
            path: from `/v1` on.
            body: sent as JSON.
            headers: of this request alone.
            deadline: in the event loop's time.

        Raises:
            EngineFailure: no connection, no headers in time, or another status.
        """
        with translated():
            async with asyncio.timeout_at(deadline):
                response = await self._session().post(self._base_url + path, json=body, headers=headers)
                if response.status == OK:
                    return response
                async with response:
                    raise failure_of(response.status, await _parsed(response))

    async def ask(
        self,
        method: str,
        path: str,
        seconds: float,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """A whole call within `seconds`: the status, and the body parsed if it is JSON, else as text.

        Raises:
            EngineFailure: no connection, no whole answer in time.
        """
        with translated():
            async with asyncio.timeout(seconds):
                url = self._base_url + path
                async with self._session().request(method, url, json=body, headers=headers) as response:
                    return response.status, await _parsed(response)

    async def close(self) -> None:
        """Close all connections."""
        session, self._opened = self._opened, None
        if session is not None:
            await session.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            keep = _KEEP_ALIVE_SECONDS
            connector: aiohttp.BaseConnector = (
                aiohttp.TCPConnector(limit=0, keepalive_timeout=keep)
                if self._uds is None
                else aiohttp.UnixConnector(str(self._uds), limit=0, keepalive_timeout=keep)
            )
            self._opened = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                # Waiting for tokens has limits of its own.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BUFFER,
            )
        return self._opened


@contextmanager
def translated() -> Iterator[None]:
    """Errors of aiohttp as ours.

    Raises:
        EngineUnreachable: the connection was not made.
        EngineStalled: the time that the caller set is over.
        EngineBroken: the connection was lost, or what came over it is no HTTP.
    """
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise EngineUnreachable("the engine's server cannot be reached") from error
    except TimeoutError:
        raise EngineStalled("the engine did not answer in time") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EngineBroken(f"the connection to the engine was lost: {type(error).__name__}") from error


async def _parsed(response: aiohttp.ClientResponse) -> Any:
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > _LARGEST_ANSWER:
            raise EngineBroken("the engine's answer is larger than any that it may give")
    text = raw.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
