"""`Idempotency-Key`: the same tenant, key and body mean the same job."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from flask import request

from app.errors import InvalidRequest
from app.jobs.job import Idempotency

_HEADER = "Idempotency-Key"
_LONGEST = 255


def idempotency_of(body: dict[str, Any]) -> Idempotency | None:
    """The request's key and body as digests, or None without a key. Bodies compare as canonical JSON plus endpoint.

    Raises:
        InvalidRequest: the key is empty or too long.
    """
    key = request.headers.get(_HEADER)
    if key is None:
        return None
    if not 0 < len(key) <= _LONGEST:
        raise InvalidRequest(f"{_HEADER} must have 1 to {_LONGEST} characters", param=_HEADER)
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return Idempotency(_digest(key), _digest(f"{request.path}\n{canonical}"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
