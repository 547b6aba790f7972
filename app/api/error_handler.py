"""The one place where errors become answers: always JSON, always the same shape, never a traceback."""

from __future__ import annotations

import math
from http import HTTPStatus

import structlog
from flask import Flask, Response
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WrongMethod

from app import errors
from app.api.answers import answer, error_object
from app.api.caller import CallerGone
from app.errors import PosthouseError

# What the SDKs would repeat by themselves although it is useless to.
_RETRIED_BY_CLIENTS = frozenset({408, 409, 429})
_CLIENT_CLOSED_REQUEST = 499
_OURS = "something went wrong here; the log knows it by this request id"

_log = structlog.get_logger(__name__)


def register(app: Flask) -> None:
    """Let every error of this application pass through here."""
    app.register_error_handler(PosthouseError, on_error)
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(CallerGone, _on_caller_gone)
    app.register_error_handler(Exception, _on_unexpected)


def on_error(error: PosthouseError) -> Response:
    """The answer for an error that is meant for the caller."""
    response = answer({"error": error_object(error)}, error.http_status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    server_side = error.http_status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if not error.retryable and (error.http_status in _RETRIED_BY_CLIENTS or server_side):
        response.headers["x-should-retry"] = "false"
    return response


def _on_http_error(error: HTTPException) -> Response:
    response = on_error(_translated(error))
    if isinstance(error, WrongMethod) and error.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response


def _translated(error: HTTPException) -> PosthouseError:
    match error.code:
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return errors.MethodNotAllowed("this method is not allowed here; see the Allow header")
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return errors.BodyTooLarge("the request is too large")
        case HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            return errors.UnsupportedMediaType("send JSON with Content-Type: application/json")
        case HTTPStatus.NOT_FOUND:
            return errors.NotFound("there is nothing at this path")
        case int(code) if HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return errors.InvalidRequest("the request is malformed")
        case _:
            return errors.ServerError(_OURS)


def _on_caller_gone(_: CallerGone) -> Response:
    return Response(status=_CLIENT_CLOSED_REQUEST)


def _on_unexpected(error: Exception) -> Response:
    _log.error("request_failed", exc_info=error)
    return on_error(errors.ServerError(_OURS))
