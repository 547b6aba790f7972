"""JSON answers: serialised once, non-ASCII kept, never NaN."""

from __future__ import annotations

import json
from typing import Any

from flask import Response

from app.errors import PosthouseError


def dumps(body: Any) -> str:
    """Compact JSON."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def answer(body: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(dumps(body), status=status, mimetype="application/json")


def error_object(error: PosthouseError) -> dict[str, Any]:
    """The wire's error object."""
    return {"message": error.message, "type": error.type, "param": error.param, "code": error.code}
