"""`/healthz`: this process lives. `/readyz`: a job submitted now would be kept and has somebody to run it."""

from __future__ import annotations

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.parts import ApiParts, parts
from app.errors import Unavailable

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
def alive() -> Response:
    return answer({"status": "ok"})


@blueprint.get("/readyz")
def ready() -> Response:
    missing = _missing(parts())
    if not missing:
        return answer({"status": "ready", "missing": []})
    response = answer({"status": "not_ready", "missing": missing}, 503)
    response.headers["Retry-After"] = "1"
    return response


def _missing(api: ApiParts) -> list[str]:
    """What stands in a job's way, in words; models one by one."""
    if api.closing.begun:
        return ["this process is stopping"]
    try:
        api.storage.check()
        api.pool.check_writable()
        available = api.pool.available()
    except Unavailable as error:
        return [error.message]
    if not available:
        return ["no model is configured"]
    return [f"model {model!r} has no healthy instance" for model, count in available.items() if not count]
