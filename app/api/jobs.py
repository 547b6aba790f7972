"""What the routes of both endpoints do alike: start a job and answer with its end, its stream or its beginning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flask import Response, after_this_request, request

from app.api.caller import Caller, CallerGone
from app.api.parts import ApiParts
from app.api.streams import EventStream, Renderer, StreamParts
from app.errors import Unavailable
from app.jobs.job import JobView
from app.jobs.tail import Tail
from app.services.orders import Order, Submitted
from cache import directives

REPLAYED = "x-posthouse-replayed"
CACHE = "x-posthouse-cache"
POSITION = "x-posthouse-position"
ETA = "x-posthouse-eta"


def streamed(api: ApiParts, view: JobView, tail: Tail, renderer: Renderer, *, owner: bool) -> Response:
    """The job's events as a stream. Closes the tail."""
    needed = StreamParts(api.results, api.cancel, api.closing, api.settings.api.keep_alive_seconds)
    return EventStream(needed, view, tail, renderer, Caller(request.environ), owner=owner).response()


def submit_order(api: ApiParts, order: Order) -> Submitted:
    """Submit and answer at once."""
    return api.submit.submit(_with_wishes(order))


def stream_order(api: ApiParts, order: Order, renderer: Callable[[JobView], Renderer]) -> Response:
    """Submit and stream."""
    submitted, tail = api.submit.submit_followed(_with_wishes(order))
    view = submitted.view
    tail = tail or api.results.open(view, start=0)
    return marked(streamed(api, view, tail, renderer(view), owner=True), submitted)


def await_order(api: ApiParts, order: Order) -> Submitted:
    """Submit and wait for the end, however long it takes. A caller who hangs up cancels the job."""
    submitted, tail = api.submit.submit_followed(_with_wishes(order))
    if submitted.replayed:
        after_this_request(_replayed)  # whatever becomes of it, an error included
    if tail is None:
        return submitted
    with tail:
        try:
            view = await_end(api, submitted.view, tail, seconds=None)
        except (CallerGone, _Restarting):
            api.cancel.hang_up(submitted.view)
            raise
    return replace(submitted, view=view)


def _with_wishes(order: Order) -> Order:
    headers = request.headers
    return replace(order, wishes=directives.parse(headers.get("Cache-Control", ""), headers.get(CACHE, "")))


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


def marked(response: Response, submitted: Submitted) -> Response:
    """Say where the answer comes from: an earlier job of the same Idempotency-Key, the cache, a shared generation.

    And how long the wait was expected to be when the job was accepted.
    """
    if submitted.replayed:
        return _replayed(response)
    response.headers[CACHE] = submitted.cache
    if submitted.age is not None:
        response.headers["Age"] = str(submitted.age)
    if submitted.position is not None:
        response.headers[POSITION] = str(submitted.position)
        if submitted.eta_seconds is not None:
            response.headers[ETA] = f"{submitted.eta_seconds:.1f}"
    return response


def _replayed(response: Response) -> Response:
    response.headers[REPLAYED] = "true"
    return response


class _Restarting(Unavailable):
    """Nobody can wait here any longer."""
