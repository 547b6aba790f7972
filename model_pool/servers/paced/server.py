"""The HTTP face: routes, streams, and what happens to the connection."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aiohttp import web

from model_pool.servers.paced import ask as asks
from model_pool.servers.paced import chat, faults
from model_pool.servers.paced.errors import BrokenOff, Refused
from model_pool.servers.paced.shapes import ChatShape, CompletionShape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from model_pool.servers.paced.answer import Answer
    from model_pool.servers.paced.ask import Ask
    from model_pool.servers.paced.engine import PacedEngine
    from model_pool.servers.paced.shapes import Shape
    from model_pool.servers.paced.vocabulary import Vocabulary

_LARGEST_BODY = 64 * 1024 * 1024
_PROBE = "probe-"  # a request whose X-Request-Id begins so asks whether the engine lives; it is no generation


@dataclass(frozen=True)
class PacedServer:
    """The routes of one served model."""

    engine: PacedEngine
    vocabulary: Vocabulary
    model: str

    def app(self) -> web.Application:
        """The application; run it with `handler_cancellation=True`, or a caller's hang-up goes unnoticed."""
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_errors])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/stats", self._stats)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, asks.from_chat, ChatShape)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, asks.from_completion, CompletionShape)

    async def _generate(
        self,
        request: web.Request,
        parse: Callable[[dict[str, Any], Vocabulary], Ask],
        shape_of: Callable[[Ask, str, str, int], Shape],
    ) -> web.StreamResponse:
        ask = parse(await self._body(request), self.vocabulary)
        answer = self.engine.plan(ask)
        request_id = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        shape = shape_of(ask, self.model, request_id, int(time.time()))
        async with self.engine.slot(counted=not request_id.startswith(_PROBE)):
            self.engine.fail_if_directed(answer.directives)
            try:
                return await (self._stream if ask.stream else self._whole)(request, ask, answer, shape)
            except BrokenOff:
                await _hang_up(request, answer)
                raise

    async def _stream(self, request: web.Request, ask: Ask, answer: Answer, shape: Shape) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        opening, sent = shape.opening(), 0
        async for deltas in self.engine.deltas(ask, answer):
            await response.write(opening + b"".join([shape.chunk(delta) for delta in deltas]))
            opening = b""
            sent += sum(len(delta.token_ids) for delta in deltas)
        await response.write(shape.closing(sent))
        await response.write_eof()
        return response

    async def _whole(self, _request: web.Request, ask: Ask, answer: Answer, shape: Shape) -> web.StreamResponse:
        deltas = [delta async for due in self.engine.deltas(ask, answer) for delta in due]
        text = "".join(delta.text for delta in deltas)
        ids = [token_id for delta in deltas for token_id in delta.token_ids]
        return web.json_response(shape.whole(text, ids, deltas[-1]))

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        if "messages" in body:
            continued = bool(body.get("continue_final_message"))
            asked = bool(body.get("add_generation_prompt", not continued))
            ids = chat.render(body["messages"], self.vocabulary, generation_prompt=asked, continue_final=continued)
        else:
            ids = asks.prompt_ids(body.get("prompt"), self.vocabulary)
        strings = [self.vocabulary.word(token_id) for token_id in ids] if body.get("return_token_strs") else None
        limit = self.engine.config.context_length
        return web.json_response({"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": strings})

    async def _models(self, _request: web.Request) -> web.Response:
        card = {"id": self.model, "object": "model", "created": 0, "owned_by": "posthouse", "root": self.model}
        limit = self.engine.config.context_length
        return web.json_response({"object": "list", "data": [{**card, "parent": None, "max_model_len": limit}]})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _stats(self, _request: web.Request) -> web.Response:
        return web.json_response(self.engine.counts.as_dict())

    async def _body(self, request: web.Request) -> dict[str, Any]:
        try:
            body = json.loads(await request.read())
        except ValueError:
            raise Refused(HTTPStatus.BAD_REQUEST, "the body is not valid JSON") from None
        if not isinstance(body, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
        if body.get("model") not in (None, self.model):
            message = f"The model `{body['model']}` does not exist. Valid aliases: {self.model}."
            raise Refused(HTTPStatus.NOT_FOUND, message, param="model")
        return body


@web.middleware
async def _errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refused as refused:
        return web.json_response(refused.body(), status=refused.status)
    except BrokenOff:
        return web.Response()  # the connection is closed: aiohttp finds that out when it sends this


async def _hang_up(request: web.Request, answer: Answer) -> None:
    """Close the connection once everything said so far has left; a crash follows where one is due."""
    transport = request.transport
    while transport is not None and not transport.is_closing() and transport.get_write_buffer_size():  # noqa: ASYNC110  # a transport tells nobody
        await asyncio.sleep(0.001)
    if answer.crashes:
        faults.crash()
    if transport is not None:
        transport.close()
