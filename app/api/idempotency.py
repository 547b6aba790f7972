"""`Idempotency-Key`: the same tenant, key and body mean the same job. A client token's keys are its end user's own."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from flask import request

from app.api.authentication import caller_key
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
    caller = caller_key()
    own = f"{caller.id}\n{caller.owner}\n{key}" if caller.owner else key
    return Idempotency(_digest(own), _digest(f"{request.path}\n{canonical}"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
