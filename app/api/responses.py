"""`/v1/responses`: create, poll, wait, stream, resume, cancel."""

from __future__ import annotations

import re

from flask import Blueprint, Response, request

from app.api import jobs
from app.api.answers import answer
from app.api.authentication import caller_key, require_key, wants_stream
from app.api.idempotency import idempotency_of
from app.api.parts import ApiParts, parts
from app.api.reading import json_object
from app.api.render_chat import failure_of
from app.api.render_events import ResponseEvents
from app.api.render_response import render_response
from app.api.responses_request import responses_order
from app.errors import InvalidRequest
from app.jobs.job import JobView, Kind, Status

blueprint = Blueprint("responses", __name__, url_prefix="/v1/responses")
require_key(blueprint, browsers=True)

_PREFERRED_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,9})\"?\s*(?:$|[,;])")
_LONGEST_WAIT = 60


@blueprint.post("")
def create() -> Response:
    api = parts()
    body = json_object()
    order = responses_order(body, caller_key(), api.models, idempotency_of(body), api.conversation.until)
    if order.stream:
        return jobs.stream_order(api, order, ResponseEvents)
    if order.background:
        submitted = jobs.submit_order(api, order)
        return jobs.marked(_shown(api, submitted.view), submitted)
    done = jobs.await_order(api, order)
    if done.view.status is Status.FAILED:
        raise failure_of(done.view)
    return jobs.marked(_shown(api, done.view), done)


@blueprint.get("/<job_id>")
def read(job_id: str) -> Response:
    api = parts()
    seconds, seen, streams = _wait_seconds(), _last_seen(), _asks_for_stream()
    view = api.results.view(job_id, caller_key(), Kind.RESPONSE)
    if streams:
        return _resumed(api, view, *seen)
    if seconds is not None and not view.status.terminal:
        with api.results.open(view, start=None) as tail:
            view = jobs.await_end(api, view, tail, seconds=seconds)
    return _shown(api, view)


@blueprint.post("/<job_id>/cancel")
def cancel(job_id: str) -> Response:
    api = parts()
    return _shown(api, api.cancel.cancel(job_id, caller_key(), Kind.RESPONSE))


@blueprint.delete("/<job_id>")
def delete(job_id: str) -> Response:
    api = parts()
    view = api.results.view(job_id, caller_key(), Kind.RESPONSE)
    api.store.delete(view.id)
    return answer({"id": view.id, "object": "response.deleted", "deleted": True})


def _shown(api: ApiParts, view: JobView) -> Response:
    return answer(render_response(view, api.results.output(view)))


def _asks_for_stream() -> bool:
    if request.args.get("stream", "false") not in {"true", "1", "false", "0"}:
        raise InvalidRequest("stream: must be true or false", param="stream")
    return wants_stream()


def _resumed(api: ApiParts, view: JobView, last: int, named: bool) -> Response:
    """The rest of the events. The log is read from its beginning, because later events repeat the text so far."""
    if named and view.status.terminal and last >= api.results.last_sequence(view):
        return Response(status=204)
    tail = api.results.open(view, start=0)
    return jobs.streamed(api, view, tail, ResponseEvents(view, after=last), owner=False)


def _last_seen() -> tuple[int, bool]:
    """The last sequence number that the caller has, and whether an EventSource said so."""
    header = request.headers.get("Last-Event-ID")
    if header is not None and header.strip():
        return _number(header.strip(), "Last-Event-ID"), True
    asked = request.args.get("starting_after")
    return (-1, False) if asked is None else (_number(asked, "starting_after"), False)


def _number(text: str, param: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text, re.ASCII):
        raise InvalidRequest(f"{param}: must be a sequence number", param=param)
    return int(text)


def _wait_seconds() -> int | None:
    """How long a poll holds: `?wait=`, else `Prefer: wait=`."""
    asked = request.args.get("wait")
    if asked is not None:
        if not re.fullmatch(r"\d{1,3}", asked, re.ASCII) or not 1 <= int(asked) <= _LONGEST_WAIT:
            raise InvalidRequest(f"wait: must be a whole number of seconds from 1 to {_LONGEST_WAIT}", param="wait")
        return int(asked)
    preferred = _PREFERRED_WAIT.search(request.headers.get("Prefer", ""))
    # A preference may be met as far as possible (RFC 7240), so a long one is shortened rather than refused.
    return min(int(preferred[1]), _LONGEST_WAIT) if preferred and int(preferred[1]) else None
