"""The face of the paced server, and its ways to break off."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from model_pool.servers.face.server import FaceServer
from model_pool.servers.paced import faults
from model_pool.servers.paced.answer import Answer
from model_pool.servers.paced.errors import BrokenOff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from model_pool.servers.face.ask import Ask
    from model_pool.servers.face.shapes import Shape
    from model_pool.servers.paced.engine import PacedEngine


class PacedServer(FaceServer[Answer]):
    """The routes of one served model."""

    engine: PacedEngine

    def app(self) -> web.Application:
        app = super().app()
        app.middlewares.append(_broken_off)
        return app

    async def answer(self, request: web.Request, ask: Ask, plan: Answer, shape: Shape) -> web.StreamResponse:
        self.engine.fail_if_directed(plan.directives)
        try:
            return await super().answer(request, ask, plan, shape)
        except BrokenOff:
            await _hang_up(request, plan)
            raise


@web.middleware
async def _broken_off(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
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
