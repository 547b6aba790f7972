"""What a request can be refused with."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

# vLLM's names for error types (`serve/exception_handling/error_response.py`); all others are the status' phrase.
_TYPES = {400: "BadRequestError", 404: "NotFoundError", 422: "UnprocessableEntityError", 503: "ServiceUnavailableError"}


class Refused(Exception):
    """The request gets an HTTP error with vLLM's error object; in the midst of a stream, an event with it.

    Args:
        status: HTTP status, 400 to 599.
        message: what is wrong.
        param: the field at fault, or None.
    """

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """The JSON body: `{"error": {"message", "type", "param", "code"}}`, `code` being the status."""
        kind = _TYPES.get(self.status) or (
            "InternalServerError" if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "BadRequestError"
        )
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status}}
