"""How a call to an engine's server can fail, in one tree.

    EngineFailure
    ├── EngineRefused        a 4xx that the request itself earned: the client's mistake, says nothing of the instance
    │   └── EngineCannotContinue    an answer was begun elsewhere, and this engine can only begin answers
    ├── EngineUnreachable    nobody listens where the server should
    ├── EngineBroken         the stream broke off before its finish reason, or is no such stream
    ├── EngineStalled        no first token, or no next token, in time
    └── EngineServerError    a 5xx, before the answer or in its midst
        └── EngineOutOfMemory    … whose message shows that memory ran out

`fault` says whether the instance is to blame. Messages may quote the engine and thus the prompt: they are for the
job's owner and never for a log.
"""

from __future__ import annotations

import http.client
import re
from typing import Any, ClassVar


class EngineFailure(Exception):
    """Base of all; `message` is the engine's or ours, `fault` is True when the instance is to blame."""

    fault: ClassVar[bool] = True

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EngineRefused(EngineFailure):
    """The engine will not run this request, wherever it is sent.

    `code` is what the job's owner gets, as a rule `context_length_exceeded` or `invalid_prompt`; `status` is the HTTP
    status, `param` the field at fault.
    """

    fault = False

    def __init__(self, message: str, *, status: int, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


class EngineCannotContinue(EngineRefused):
    """The answer was begun by another attempt, and this engine takes neither token ids nor a begun message."""

    def __init__(self) -> None:
        message = "the instance that gave this answer was lost, and this engine cannot continue an answer"
        super().__init__(message, status=_NOT_IMPLEMENTED, code="worker_lost")


class EngineUnreachable(EngineFailure):
    """No connection."""


class EngineBroken(EngineFailure):
    """The stream ended, or stopped being one, before its finish reason."""


class EngineStalled(EngineFailure):
    """The engine is connected and silent."""


class EngineServerError(EngineFailure):
    """The engine failed; `status` is what it said."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineOutOfMemory(EngineServerError):
    """The device or the host has no memory left."""


_OUT_OF_MEMORY = re.compile(r"out.?of.?memory|cannot allocate memory|failed to allocate", re.IGNORECASE)
_CONTEXT_CODE = "context_length_exceeded"  # OpenAI's, and so ours
_TOO_LONG = re.compile(r"context (length|size|window)|max_model_len|maximum model length", re.IGNORECASE)
# 4xx that say something of the instance (its key, its model, its load) and not of this request; and the one 5xx that
# says the engine cannot do what the request asks for.
_NOT_THE_REQUEST = {401, 403, 404, 407, 408, 409, 425, 429}
_CLIENT_ERROR, _SERVER_ERROR, _NOT_IMPLEMENTED = 400, 500, 501
_ERROR_STATUSES = range(400, 600)


def failure_of(status: int, body: Any) -> EngineFailure:
    """The failure that an error body means: vLLM's and OpenAI's `{"error": {…}}`, or anything else.

    Args:
        status: the HTTP status; 200 for an error object in the midst of a stream.
        body: the parsed body, or its text.
    """
    error = body.get("error", body) if isinstance(body, dict) else body
    fields: dict[str, Any] = error if isinstance(error, dict) else {"message": error}
    status = _status(status, fields)
    message = str(fields.get("message") or fields.get("detail") or http.client.responses.get(status, f"HTTP {status}"))[
        :2000
    ]
    if _is_refusal(status):
        too_long = fields.get("code") == _CONTEXT_CODE or _TOO_LONG.search(message)
        code = _CONTEXT_CODE if too_long else "invalid_prompt"
        return EngineRefused(message, status=status, code=code, param=fields.get("param"))
    kind = EngineOutOfMemory if _OUT_OF_MEMORY.search(message) else EngineServerError
    return kind(message, status=status)


def _status(status: int, fields: dict[str, Any]) -> int:
    told = status if status >= _CLIENT_ERROR else fields.get("code")
    return told if isinstance(told, int) and told in _ERROR_STATUSES else _SERVER_ERROR


def _is_refusal(status: int) -> bool:
    return status == _NOT_IMPLEMENTED or (status < _SERVER_ERROR and status not in _NOT_THE_REQUEST)
