"""The one streaming client of an OpenAI-compatible server.

    client = EngineClient(model="support", uds=Path("…/support.0.sock"))
    async with aclosing(client.stream(request, first_token_timeout=120, token_timeout=30)) as chunks:
        async for chunk in chunks: …

Leaving the block early closes the connection, and the engine aborts the generation.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from model_pool.bodies import PLAIN, Dialect, body_of
from model_pool.errors import EngineBroken, EngineServerError, failure_of
from model_pool.exchange import Chunk, Continuation, EngineRequest, Stats, Usage
from model_pool.streaming import chunks_of
from model_pool.transport import OK, EngineTransport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from model_pool.endpoint import Endpoint

__all__ = ["PLAIN", "Chunk", "Continuation", "Dialect", "EngineClient", "EngineRequest", "Stats", "Usage"]

_NOT_FOUND = 404
_ASK_SECONDS = 5.0


class EngineClient:
    """All calls to one instance's server, over its Unix socket or to a URL. Belongs to one event loop.

    Args:
        model: the name under which the server serves its model; every request asks for it.
        uds: path of the server's Unix socket; without it `base_url` is asked, whose path ends before `/v1`.
        base_url: scheme, host and port; with `uds` it only fills the Host header.
        headers: sent along with every request, such as an API key for a remote engine.
        dialect: which additions to the protocol the server understands.
    """

    def __init__(
        self,
        *,
        model: str,
        uds: Path | None = None,
        base_url: str = "http://engine",
        headers: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self.dialect = dialect or Dialect()
        self._model = model
        self._transport = EngineTransport(uds, base_url, headers or {})
        self._probes = itertools.count(1)

    @classmethod
    def at(cls, endpoint: Endpoint) -> Self:
        """A client of the server at `endpoint`."""
        return cls(
            model=endpoint.model,
            uds=endpoint.uds,
            base_url=endpoint.base_url,
            headers=endpoint.headers,
            dialect=endpoint.dialect,
        )

    async def stream(
        self, request: EngineRequest, *, first_token_timeout: float, token_timeout: float, rest: float = 0.0
    ) -> AsyncGenerator[Chunk, None]:
        """Run a request and yield its chunks; the last but for usage has a finish reason.

        Args:
            request: what to run.
            first_token_timeout: seconds until the first token.
            token_timeout: seconds between two tokens.
            rest: seconds that a flowing stream is left alone after each read; see `chunks_of`.

        Raises:
            EngineFailure: see `model_pool.errors`; no chunk follows.
            ValueError: the request is incomplete (see `model_pool.bodies`).
        """
        path, body = body_of(replace(request, model=self._model), self.dialect)
        deadline = asyncio.get_running_loop().time() + first_token_timeout
        headers = {"X-Request-Id": request.request_id} if request.request_id else {}
        response = await self._transport.open(path, body, headers, deadline)
        finished = False
        try:
            async for chunk in chunks_of(response, deadline, token_timeout, rest):
                finished = finished or chunk.finish_reason is not None
                yield chunk
        finally:
            response.close()  # nothing after the body's end; before it, the engine sees the hang-up and aborts
        if not finished:
            raise EngineBroken("the engine's stream ended before its answer")

    async def probe(self, *, timeout: float) -> None:  # noqa: ASYNC109  # a limit of ours, with an error of ours
        """Ask for one token: only progress shows health. Returns when it has come within `timeout` seconds.

        Raises:
            EngineFailure: it has not, for whatever reason; `fault` is True.
        """
        body = {"model": self._model, "messages": [{"role": "user", "content": "ping"}], "max_tokens": 1}
        headers = {"X-Request-Id": f"probe-{next(self._probes)}"}
        status, answer = await self._transport.ask("POST", "/v1/chat/completions", timeout, body=body, headers=headers)
        if status != OK:
            failure = failure_of(status, answer)
            raise failure if failure.fault else EngineServerError(failure.message, status=status)
        if not (isinstance(answer, dict) and answer.get("choices")):
            raise EngineBroken("the engine answered the probe without a token")

    async def models(self) -> tuple[str, ...]:
        """The names of the models that the server serves.

        Raises:
            EngineFailure: no list has come within 5 seconds.
        """
        status, answer = await self._transport.ask("GET", "/v1/models", _ASK_SECONDS)
        if status != OK:
            raise failure_of(status, answer)
        return tuple(card["id"] for card in answer["data"])

    async def count(self, request: EngineRequest) -> int | None:
        """Tokens of a request's prompt, None where the server does not say. Uses no sequence of the engine.

        Raises:
            EngineFailure: nothing has come within 5 seconds.
        """
        body = {"model": self._model, "messages": list(request.messages), "add_generation_prompt": True}
        if request.params.get("tools"):
            body["tools"] = request.params["tools"]
        status, answer = await self._transport.ask("POST", "/tokenize", _ASK_SECONDS, body=body)
        count = answer.get("count") if status == OK and isinstance(answer, dict) else None
        return count if isinstance(count, int) else None

    async def stats(self) -> Stats | None:
        """What the server counts of its generations, None when it counts nothing.

        Raises:
            EngineFailure: no answer has come within 5 seconds.
        """
        status, answer = await self._transport.ask("GET", "/stats", _ASK_SECONDS)
        if status == _NOT_FOUND:
            return None
        if status != OK:
            raise failure_of(status, answer)
        return Stats(answer["started"], answer["finished"], answer["aborted"], answer["in_flight"])

    async def close(self) -> None:
        """Close all connections; streams that are open end as broken."""
        await self._transport.close()
