"""The chunks of one streamed response, each in its time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from model_pool.chunks import DONE, chunk_of
from model_pool.errors import EngineBroken, EngineFailure, EngineStalled
from model_pool.sse import EventSplitter, EventTooLargeError
from model_pool.transport import translated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import aiohttp

    from model_pool.exchange import Chunk

_FAREWELL_SECONDS = 1.0
_READS_AT_ONCE = 4  # of an answer's beginning, and of short answers, nothing waits


async def chunks_of(
    response: aiohttp.ClientResponse, deadline: float, token_timeout: float, rest: float = 0.0
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks until the stream ends.

    Args:
        response: a response with status 200 whose body has not been read.
        deadline: when the first token must have come, in the event loop's time.
        token_timeout: seconds between two tokens; chunks without a token do not count.
        rest: seconds to leave a flowing stream alone after each read, so that many tokens are read in one go. The
            beginning and the end of an answer are read at once.

    Raises:
        EngineFailure: the stream broke, stalled, or told of an error.
    """
    loop = asyncio.get_running_loop()
    splitter = EventSplitter()
    reads, ending = 0, False
    while data := await _read(response.content, deadline):
        reads += 1
        for event in _split(splitter, data):
            if event == DONE:
                await _farewell(response.content)
                return
            chunk = chunk_of(event)
            if chunk.is_progress:
                deadline = loop.time() + token_timeout
            ending = ending or chunk.finish_reason is not None
            yield chunk
        if rest and reads > _READS_AT_ONCE and not ending:
            await _rest(response, rest)


async def _rest(response: aiohttp.ClientResponse, seconds: float) -> None:
    """Leave a stream alone: its socket is not even looked at, so that what comes meanwhile costs one read in all."""
    transport = response.connection and response.connection.transport
    if transport is None:
        return  # the whole body is here
    transport.pause_reading()
    try:
        await asyncio.sleep(seconds)
    finally:
        transport.resume_reading()


async def _read(content: aiohttp.StreamReader, deadline: float) -> bytes:
    """Whatever has come, b"" at the end of the body."""
    with translated():
        try:
            async with asyncio.timeout_at(deadline):
                return await content.readany()
        except TimeoutError:
            # If our own loop stood still, the tokens may be there although their time is over.
            late = content.read_nowait()
        if late:
            return late
    raise EngineStalled("the engine sent no token in time")


def _split(splitter: EventSplitter, data: bytes) -> list[bytes]:
    try:
        return splitter.feed(data)
    except EventTooLargeError:
        raise EngineBroken("the engine's stream has an event without end") from None


async def _farewell(content: aiohttp.StreamReader) -> None:
    """Read to the end of the body, so that the connection can be used again and the engine sees no hang-up."""
    deadline = asyncio.get_running_loop().time() + _FAREWELL_SECONDS
    try:
        while await _read(content, deadline):
            pass
    except EngineFailure:
        return  # the answer is whole; the connection is closed instead of kept
