"""The HTTP face: routes, streams, and what happens to the connection."""

from __future__ import annotations

import json
import time
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from aiohttp import web

from model_pool.servers.face import ask as asks
from model_pool.servers.face.errors import Refused
from model_pool.servers.face.shapes import ChatShape, CompletionShape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from model_pool.servers.face.ask import Ask
    from model_pool.servers.face.shapes import Shape
    from model_pool.servers.face.slots import Slots
    from model_pool.servers.face.speaker import Delta
    from model_pool.servers.face.tokenizer import Tokenizer

_LARGEST_BODY = 64 * 1024 * 1024
_PROBE = "probe-"  # a request whose X-Request-Id begins so asks whether the engine lives; it is no generation
_BEGUN = web.RequestKey("begun", web.StreamResponse)

Plan = TypeVar("Plan")


class Engine(Protocol[Plan]):
    """What makes the tokens."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def context_length(self) -> int: ...

    @property
    def slots(self) -> Slots: ...

    def plan(self, ask: Ask) -> Plan:
        """Look at a request before it waits for its slot.

        Raises:
            Refused: it cannot be run: too long, ids unknown, …
        """
        ...

    def deltas(self, ask: Ask, plan: Plan) -> AsyncIterator[list[Delta]]:
        """The answer, in lists of what has come at the same moment; the last delta has a finish reason.

        Raises:
            Refused: the engine fails, before or in the midst of the answer.
        """
        ...


class FaceServer(Generic[Plan]):
    """The routes of one served model."""

    def __init__(self, engine: Engine[Plan], model: str) -> None:
        self.engine = engine
        self.model = model

    def app(self) -> web.Application:
        """The application; run it with `handler_cancellation=True`, or a caller's hang-up goes unnoticed."""
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_endings])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/stats", self._stats)
        return app

    async def answer(self, request: web.Request, ask: Ask, plan: Plan, shape: Shape) -> web.StreamResponse:
        """Run a request that has got its slot."""
        return await (self._stream if ask.stream else self._whole)(request, ask, plan, shape)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, asks.from_chat, ChatShape)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, asks.from_completion, CompletionShape)

    async def _generate(
        self,
        request: web.Request,
        parse: Callable[[dict[str, Any], Tokenizer], Ask],
        shape_of: Callable[[Ask, str, str, int], Shape],
    ) -> web.StreamResponse:
        ask = parse(await self._body(request), self.engine.tokenizer)
        plan = self.engine.plan(ask)
        request_id = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        shape = shape_of(ask, self.model, request_id, int(time.time()))
        async with self.engine.slots.take(counted=not request_id.startswith(_PROBE)):
            return await self.answer(request, ask, plan, shape)

    async def _stream(self, request: web.Request, ask: Ask, plan: Plan, shape: Shape) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        request[_BEGUN] = response
        try:
            await self._write(response, ask, plan, shape)
        except Refused as failure:
            await response.write(b"data: " + json.dumps(failure.body()).encode() + b"\n\n")
            await response.write_eof()
            raise
        await response.write_eof()
        return response

    async def _write(self, response: web.StreamResponse, ask: Ask, plan: Plan, shape: Shape) -> None:
        opening, sent, reasoned = shape.opening(), 0, 0
        async for deltas in self.engine.deltas(ask, plan):
            await response.write(opening + b"".join([shape.chunk(delta) for delta in deltas]))
            opening = b""
            sent += sum(len(delta.token_ids) for delta in deltas)
            reasoned += sum(len(delta.token_ids) for delta in deltas if delta.reasoning)
        await response.write(shape.closing(sent, reasoned))

    async def _whole(self, _request: web.Request, ask: Ask, plan: Plan, shape: Shape) -> web.StreamResponse:
        deltas = [delta async for due in self.engine.deltas(ask, plan) for delta in due]
        return web.json_response(shape.whole(deltas))

    async def _tokenize(self, request: web.Request) -> web.Response:
        body, tokenizer = await self._body(request), self.engine.tokenizer
        if "messages" in body:
            continued = bool(body.get("continue_final_message"))
            asked = bool(body.get("add_generation_prompt", not continued))
            ids = tokenizer.render(body["messages"], generation_prompt=asked, continue_final=continued)
        else:
            ids = asks.prompt_ids(body.get("prompt"), tokenizer)
        strings = tokenizer.strings(ids) if body.get("return_token_strs") else None
        limit = self.engine.context_length
        return web.json_response({"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": strings})

    async def _models(self, _request: web.Request) -> web.Response:
        card = {"id": self.model, "object": "model", "created": 0, "owned_by": "posthouse", "root": self.model}
        limit = self.engine.context_length
        return web.json_response({"object": "list", "data": [{**card, "parent": None, "max_model_len": limit}]})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _stats(self, _request: web.Request) -> web.Response:
        return web.json_response(self.engine.slots.counts.as_dict())

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
async def _endings(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refused as refused:
        if _BEGUN in request:  # too late for a status: the stream has told it
            return request[_BEGUN]
        return web.json_response(refused.body(), status=refused.status)
    except ConnectionError:
        if _BEGUN in request:  # the caller has what it wanted and hung up, which is no error
            return request[_BEGUN]
        raise
