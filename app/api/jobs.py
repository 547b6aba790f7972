"""What the routes of both endpoints do alike: start a job and answer with its end, its stream or its beginning."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, request

from app.api.caller import Caller, CallerGone
from app.api.parts import ApiParts
from app.api.streams import EventStream, Renderer, StreamParts
from app.errors import Unavailable
from app.jobs.job import JobView
from app.jobs.tail import Tail
from app.services.submit import Order, Submitted

REPLAYED = "x-posthouse-replayed"


def streamed(
    api: ApiParts, view: JobView, tail: Tail, renderer: Renderer, *, owner: bool, replayed: bool = False
) -> Response:
    """The job's events as a stream. Closes the tail."""
    needed = StreamParts(api.results, api.cancel, api.closing, api.settings.api.keep_alive_seconds)
    response = EventStream(needed, view, tail, renderer, Caller(request.environ), owner=owner).response()
    return marked(response, replayed=replayed)


def stream_order(api: ApiParts, order: Order, renderer: Callable[[JobView], Renderer]) -> Response:
    """Submit and stream."""
    submitted, tail = api.submit.submit_followed(order)
    view = submitted.view
    return streamed(api, view, tail, renderer(view), owner=True, replayed=submitted.replayed)


def await_order(api: ApiParts, order: Order) -> Submitted:
    """Submit and wait for the end, however long it takes. A caller who hangs up cancels the job."""
    submitted, tail = api.submit.submit_followed(order)
    with tail:
        try:
            view = await_end(api, submitted.view, tail, seconds=None)
        except (CallerGone, _Restarting):
            api.cancel.hang_up(submitted.view)
            raise
    return Submitted(view, submitted.replayed)


def await_end(api: ApiParts, view: JobView, tail: Tail, *, seconds: float | None) -> JobView:
    """The job once it has ended or `seconds` have passed.

    Raises:
        CallerGone: nobody waits any more.
        Unavailable: this process is going away.
    """
    caller = Caller(request.environ)

    def still_there() -> None:
        caller.check()
        if api.closing.time_is_up:
            raise _Restarting("this server is being restarted; ask again", retry_after=1)

    return api.results.wait(view, tail, still_there=still_there, seconds=seconds)


def marked(response: Response, *, replayed: bool) -> Response:
    """Say so where an Idempotency-Key gave an earlier job again."""
    if replayed:
        response.headers[REPLAYED] = "true"
    return response


class _Restarting(Unavailable):
    """Nobody can wait here any longer."""
