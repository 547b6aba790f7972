"""Pages of other origins (CORS, as the Fetch standard has it): configured ones may call `/v1/…` and read the answers.

Origins are compared whole, never by pattern. Cookies play no part (`Access-Control-Allow-Credentials` is not sent): who
calls is said by the Authorization header or a stream's `?client_token=`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from http import HTTPStatus

from flask import Flask, Response, request

ANY = "*"
_PATHS = "/v1/"
_METHODS = "GET, POST, PATCH, DELETE"
_PREFLIGHT_SECONDS = 600
# What a page may send is not limited (SDKs add headers of their own), but only names come back.
_NAMES = re.compile(r"[A-Za-z0-9-]{1,64}(\s*,\s*[A-Za-z0-9-]{1,64}){0,63}")
_SHOWN = ", ".join(
    (
        "x-request-id",
        "x-should-retry",
        "retry-after",
        "age",
        "x-posthouse-cache",
        "x-posthouse-replayed",
        "x-posthouse-position",
        "x-posthouse-eta",
        *(f"x-ratelimit-{what}-{kind}" for kind in ("requests", "tokens") for what in ("limit", "remaining", "reset")),
    )
)


def register(app: Flask, origins: Collection[str]) -> None:
    """Answer preflights and mark answers for these origins (`*`: all). Without origins nothing is added."""
    if not origins:
        return

    def permitted() -> str | None:
        origin = request.headers.get("Origin")
        ours = request.path.startswith(_PATHS) and origin and (origin in origins or ANY in origins)
        return origin if ours else None

    def preflight() -> Response | None:
        asked = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        return _preflight() if asked and permitted() else None

    def mark(response: Response) -> Response:
        origin = permitted()
        response.vary.add("Origin")
        if origin:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = _SHOWN
        return response

    app.before_request(preflight)
    app.after_request(mark)


def _preflight() -> Response:
    response = Response(status=HTTPStatus.NO_CONTENT)
    response.headers["Access-Control-Allow-Methods"] = _METHODS
    response.headers["Access-Control-Max-Age"] = str(_PREFLIGHT_SECONDS)
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    if _NAMES.fullmatch(wanted):
        response.headers["Access-Control-Allow-Headers"] = wanted
    return response
