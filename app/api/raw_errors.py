"""Answers to requests that never reach the application, being no HTTP: the wire's error object all the same."""

from __future__ import annotations

import secrets

from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine, ParseException

from app.api.answers import dumps

_TOO_LARGE, _BAD, _OURS = (
    ("431 Request Header Fields Too Large", "invalid_request_error", "the request's line or headers are too large"),
    ("400 Bad Request", "invalid_request_error", "this is no valid HTTP request"),
    ("500 Internal Server Error", "server_error", "something went wrong here"),
)


def answer_to(error: BaseException) -> bytes:
    """A whole HTTP/1.1 response, after which the connection is closed."""
    status, kind, message = _described(error)
    code = "server_error" if kind == "server_error" else "invalid_request"
    body = dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    head = (
        f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"x-request-id: req_{secrets.token_hex(16)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _described(error: BaseException) -> tuple[str, str, str]:
    if isinstance(error, LimitRequestLine | LimitRequestHeaders):
        return _TOO_LARGE
    return _BAD if isinstance(error, ParseException) else _OURS
