"""A job's events on their way to a caller: to the end, with signs of life, and an eye on whether anybody listens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import structlog
from flask import Response

from app.api import sse
from app.api.caller import Caller, CallerGone
from app.api.closing import Closing
from app.errors import PosthouseError, ServerError, Unavailable
from app.jobs.events import Event
from app.jobs.job import JobView
from app.jobs.tail import Tail
from app.services.cancel import Cancel
from app.services.following import Ended, Step, Waiting
from app.services.results import Results

_POSITION_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class Renderer(Protocol):
    """Turns events into frames; empty text where an event has no frame."""

    def events(self, batch: list[Event]) -> str: ...
    def ended(self, end: Ended) -> str: ...
    def broken(self, error: PosthouseError) -> str: ...


@dataclass(frozen=True)
class StreamParts:
    """What every stream needs."""

    results: Results
    cancel: Cancel
    closing: Closing
    keep_alive_seconds: float
    monotonic: Callable[[], float] = time.monotonic


class EventStream:
    """The body of one streamed response. WSGI servers call `close` when the caller is gone or all is sent.

    Args:
        owner: this caller asked for the job, so its hanging up may cancel the job (see `Cancel.hang_up`).
    """

    def __init__(
        self, parts: StreamParts, view: JobView, tail: Tail, renderer: Renderer, caller: Caller, *, owner: bool
    ) -> None:
        self._parts = parts
        self._view = view
        self._tail = tail
        self._renderer = renderer
        self._caller = caller
        self._owner = owner
        self._open = True
        self._spoke_at = parts.monotonic()
        self._queued = None if view.position is None else (view.position, view.eta_seconds)
        self._looked_at = self._spoke_at

    def response(self) -> Response:
        return Response(self, mimetype=sse.MIMETYPE, headers=sse.HEADERS)

    def __iter__(self) -> Iterator[bytes]:
        if self._queued is not None:
            yield sse.position(*self._queued)
        try:
            yield from self._frames()
        except CallerGone:
            return
        except PosthouseError as error:
            yield self._broken(error)
        except Exception as error:  # noqa: BLE001 -- headers are sent: the stream itself has to say it
            _log.error("stream_failed", exc_info=error)
            yield self._broken(ServerError("something went wrong here; the log knows it by this request id"))
        self._open = False

    def close(self) -> None:
        """The end, however it came. A caller who left before it wants the job no more."""
        self._tail.close()
        if self._open and self._owner and not self._parts.closing.begun:
            self._parts.cancel.hang_up(self._view)
        self._open = False

    def _frames(self) -> Iterator[bytes]:
        for step in self._parts.results.follow(self._view, self._tail):
            frame = self._frame(step)
            if frame:
                self._spoke_at = self._parts.monotonic()
                yield frame
            self._caller.check()
            if self._parts.closing.time_is_up:
                raise Unavailable("this server is being restarted; the job goes on", retry_after=1)

    def _frame(self, step: Step) -> bytes:
        if isinstance(step, list):
            self._queued = None if step[-1].sequence > 1 else self._queued
            return self._renderer.events(step).encode()
        if isinstance(step, Waiting):
            return self._sign_of_life()
        return self._renderer.ended(step).encode()

    def _sign_of_life(self) -> bytes:
        """The place in line when it has changed, else a comment when nothing was said for long."""
        now = self._parts.monotonic()
        if self._queued is not None and now - self._looked_at >= _POSITION_SECONDS:
            self._looked_at = now
            before, self._queued = self._queued, self._place()
            if self._queued is not None and self._queued != before:
                return sse.position(*self._queued)
        return sse.KEEP_ALIVE if now - self._spoke_at >= self._parts.keep_alive_seconds else b""

    def _place(self) -> tuple[int, float | None] | None:
        try:
            return self._parts.results.place(self._view.id)
        except Unavailable:
            return self._queued

    def _broken(self, error: PosthouseError) -> bytes:
        return self._renderer.broken(error).encode()
