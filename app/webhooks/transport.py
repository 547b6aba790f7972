"""One attempt over HTTP: connects to judged addresses only, follows nothing, believes nothing.

No redirects, no proxies from the environment, no cookies, no decompression, a new connection per attempt, and at most
64 KiB of the answer read (and thrown away: a receiver's words are shown to nobody).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from types import TracebackType
from typing import Final, Protocol, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from app.errors import WebhookUrlForbidden
from app.webhooks.backoff import Answer, parse_retry_after
from app.webhooks.targets import Target, Targets

READ_LIMIT: Final = 64 * 1024
_READ_CHUNK: Final = 16 * 1024
_AFTER_STATUS_SECONDS: Final = 2.0  # the status decides; the rest of the answer is courtesy


class Transport(Protocol):
    """Carries one attempt. Never raises for what a receiver or the network does."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send `body` once. The answer has the status, or one of the error codes of `AiohttpTransport`."""


class AiohttpTransport:
    """Use as an async context manager, one per event loop.

    Error codes: `target_forbidden`, `dns`, `connect`, `tls`, `timeout`, `protocol`.

    Args:
        targets: judges the URL and every address before each attempt.
        tls: shared by all attempts; a context of its own for each costs tens of milliseconds of CPU.
        timeout: seconds for the whole attempt, resolving included.
        threads: most names that are resolved at once; as many as attempts, so that a slow name delays no other.
        clock: seconds since the epoch, for `Retry-After` dates.
    """

    def __init__(
        self,
        targets: Targets,
        tls: ssl.SSLContext,
        *,
        timeout: float,
        threads: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._targets = targets
        self._tls = tls
        self._timeout = timeout
        self._threads = threads
        self._clock = clock

    async def __aenter__(self) -> Self:
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="webhook-lookup")
        connector = aiohttp.TCPConnector(
            resolver=_JudgedResolver(self._targets, self._pool),
            use_dns_cache=False,
            ssl=self._tls,
            limit=0,  # the sender bounds attempts, in all and per host
            force_close=True,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": "Posthouse-Webhooks/1", "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            target = self._targets.parse(url)
            return await self._exchange(target, headers, body)
        except Exception as error:
            code = _error_code(error)
            if code is None:
                raise
            return Answer(error=code)

    async def _exchange(self, target: Target, headers: Mapping[str, str], body: bytes) -> Answer:
        content_type = {"Content-Type": "application/json"}
        async with self._session.post(
            target.url, data=body, headers={**content_type, **headers}, allow_redirects=False
        ) as response:
            await _discard(response)
            retry_after = parse_retry_after(response.headers.get("Retry-After"), self._clock())
            return Answer(response.status, "", retry_after)


class _JudgedResolver(AbstractResolver):
    """Gives the connector the very addresses that were judged. Literal hosts never come here: `parse` judged them."""

    def __init__(self, targets: Targets, pool: ThreadPoolExecutor) -> None:
        self._targets = targets
        self._pool = pool

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 -- the signature is aiohttp's; both families serve
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._pool, self._targets.resolve, host, port)
        return [_entry(host, address, port) for address in found]

    async def close(self) -> None:
        """Nothing to close: the pool is the transport's."""


def _entry(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6  # noqa: PLR2004 -- IPv4
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": flags}


async def _discard(response: aiohttp.ClientResponse) -> None:
    """Read the answer up to the limit. What goes wrong now changes nothing: the status has been received."""
    seen = 0
    try:
        async with asyncio.timeout(_AFTER_STATUS_SECONDS):
            while seen < READ_LIMIT and (chunk := await response.content.read(_READ_CHUNK)):
                seen += len(chunk)
    except (aiohttp.ClientError, TimeoutError):
        pass
    finally:
        response.close()


def _error_code(error: Exception) -> str | None:
    """The code of a failure that is the receiver's or the network's, None for one of ours."""
    if isinstance(error, WebhookUrlForbidden):
        return "target_forbidden"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "dns"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "tls"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connect"
    return "protocol" if isinstance(error, aiohttp.ClientError | OSError) else None
