"""Around every request: its id, the log's context, one access line, one measurement. Query strings are never logged."""

from __future__ import annotations

import secrets
import time

import structlog
from flask import Flask, Response, g, request

from app.api.measures import Measures

# Asked several times a second by whoever supervises: not worth a line each.
_PROBES = frozenset({"/healthz", "/readyz"})
_log = structlog.get_logger("access")


def register(app: Flask, measures: Measures) -> None:
    """Observe every request of this application."""

    def begin() -> None:
        g.started = time.monotonic()
        g.request_id = "req_" + secrets.token_hex(16)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=g.request_id)

    def end(response: Response) -> Response:
        response.headers["x-request-id"] = g.request_id
        line = _Line(response.status_code, measures)
        response.call_on_close(line.write)
        return response

    app.before_request(begin)
    app.after_request(end)


class _Line:
    """The access line of one request, written once its body has left."""

    def __init__(self, status: int, measures: Measures) -> None:
        self._status = status
        self._measures = measures
        self._started: float = g.started
        self._method = request.method
        self._path = request.path
        self._route = request.url_rule.rule if request.url_rule else "unknown"
        self._tenant = g.key.tenant if "key" in g else None

    def write(self) -> None:
        seconds = time.monotonic() - self._started
        self._measures.request(self._method, self._route, self._status, seconds)
        (_log.debug if self._route in _PROBES else _log.info)(
            "request",
            method=self._method,
            path=self._path,
            status=self._status,
            ms=round(seconds * 1000, 1),
            tenant=self._tenant,
        )
