"""`/v1/chat/completions`: create (waiting or streaming) and read."""

from __future__ import annotations

from flask import Blueprint, Response

from app.api import jobs
from app.api.answers import answer
from app.api.authentication import caller_key, require_key
from app.api.chat_request import chat_order
from app.api.idempotency import idempotency_of
from app.api.parts import parts
from app.api.reading import json_object
from app.api.render_chat import ChatChunks, failure_of, render_chat
from app.jobs.job import JobView, Kind, Status

blueprint = Blueprint("chat", __name__, url_prefix="/v1/chat/completions")
require_key(blueprint, browsers=True)


@blueprint.post("")
def create() -> Response:
    api = parts()
    body = json_object()
    order = chat_order(body, caller_key(), api.models, idempotency_of(body))
    if order.stream:
        return jobs.stream_order(api, order, _chunks)
    done = jobs.await_order(api, order)
    if done.view.status not in {Status.COMPLETED, Status.INCOMPLETE}:
        raise failure_of(done.view)
    return jobs.marked(answer(render_chat(done.view, api.results.output(done.view))), done)


@blueprint.get("/<job_id>")
def read(job_id: str) -> Response:
    api = parts()
    view = api.results.view(job_id, caller_key(), Kind.CHAT)
    return answer(render_chat(view, api.results.output(view)))


def _chunks(view: JobView) -> ChatChunks:
    return ChatChunks(view, include_usage=bool(view.echo.get("include_usage")))
