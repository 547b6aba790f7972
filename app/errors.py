"""Every error that a client of Posthouse can see, in one tree.

    PosthouseError
    ├── InvalidRequest            400  invalid_request        (param names the field)
    │   ├── UnsupportedContent    400  unsupported_content
    │   ├── ContextLengthExceeded 400  context_length_exceeded
    │   └── WebhookUrlForbidden   400  webhook_url_forbidden
    ├── RequestTimeout            408  request_timeout
    ├── BodyTooLarge              413  body_too_large
    ├── UnsupportedMediaType      415  unsupported_media_type
    ├── MethodNotAllowed          405  method_not_allowed
    ├── AuthenticationFailed      401  invalid_api_key
    ├── PermissionDenied          403  permission_denied
    ├── NotFound                  404  not_found
    │   ├── ModelNotFound         404  model_not_found
    │   └── JobNotFound           404  job_not_found
    ├── IdempotencyConflict       409  idempotency_conflict
    │   └── IdempotencyExpired    409  idempotency_expired
    ├── NotADeadLetter            409  not_a_dead_letter
    ├── CacheMiss                 504  cache_miss
    ├── QueueFull                 429  queue_full
    ├── RateLimitExceeded         429  rate_limit_exceeded
    ├── JobFailed                 5xx  the job's own failure code
    ├── ServerError               500  server_error
    └── Unavailable               503
        ├── QueueUnavailable      503  queue_unavailable
        ├── StorageFull           503  storage_full
        └── ModelUnavailable      503  model_unavailable

Errors are data: each class carries its code, HTTP status, OpenAI error type and whether a retry can help; one
handler in `app.api` turns them into the wire's error object. Messages are written for the caller and never hold
another tenant's data, a secret or a traceback.
"""

from __future__ import annotations

from typing import ClassVar


class PosthouseError(Exception):
    """Base of all errors that reach a client.

    Args:
        message: what is wrong and what to do about it, for the caller.
        param: the request field at fault, in the wire's spelling, or None.
        retry_after: seconds after which a retry may succeed, or None.
    """

    code: ClassVar[str] = "server_error"
    http_status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after


class InvalidRequest(PosthouseError):
    code = "invalid_request"
    http_status = 400
    type = "invalid_request_error"


class UnsupportedContent(InvalidRequest):
    code = "unsupported_content"


class ContextLengthExceeded(InvalidRequest):
    code = "context_length_exceeded"


class WebhookUrlForbidden(InvalidRequest):
    code = "webhook_url_forbidden"


class RequestTimeout(InvalidRequest):
    """The body did not arrive in time; what sends it is too slow, so the same request again would fail again."""

    code = "request_timeout"
    http_status = 408


class BodyTooLarge(InvalidRequest):
    code = "body_too_large"
    http_status = 413


class UnsupportedMediaType(InvalidRequest):
    code = "unsupported_media_type"
    http_status = 415


class MethodNotAllowed(InvalidRequest):
    code = "method_not_allowed"
    http_status = 405


class AuthenticationFailed(PosthouseError):
    code = "invalid_api_key"
    http_status = 401
    type = "authentication_error"


class PermissionDenied(PosthouseError):
    code = "permission_denied"
    http_status = 403
    type = "permission_error"


class NotFound(PosthouseError):
    code = "not_found"
    http_status = 404
    type = "not_found_error"


class ModelNotFound(NotFound):
    code = "model_not_found"


class JobNotFound(NotFound):
    code = "job_not_found"


class IdempotencyConflict(PosthouseError):
    code = "idempotency_conflict"
    http_status = 409
    type = "invalid_request_error"


class IdempotencyExpired(IdempotencyConflict):
    code = "idempotency_expired"


class CacheMiss(PosthouseError):
    """`only-if-cached` without a kept answer (RFC 9111, 5.2.1.7)."""

    code = "cache_miss"
    http_status = 504


class NotADeadLetter(PosthouseError):
    """Only what was given up after its last attempt may be tried again by an operator."""

    code = "not_a_dead_letter"
    http_status = 409
    type = "invalid_request_error"


class RateLimitExceeded(PosthouseError):
    code = "rate_limit_exceeded"
    http_status = 429
    type = "rate_limit_error"
    retryable = True


class QueueFull(RateLimitExceeded):
    code = "queue_full"


class ServerError(PosthouseError):
    """A fault of ours; the details are in the log under the same request id, never in the answer."""


class Unavailable(PosthouseError):
    code = "unavailable"
    http_status = 503
    retryable = True


class QueueUnavailable(Unavailable):
    code = "queue_unavailable"


class StorageFull(Unavailable):
    code = "storage_full"


class ModelUnavailable(Unavailable):
    code = "model_unavailable"


# How a waiting caller sees each failure code of a job: HTTP status, error type.
_JOB_FAILURES: dict[str, tuple[int, str]] = {
    "context_length_exceeded": (400, "invalid_request_error"),
    "invalid_prompt": (400, "invalid_request_error"),
    "model_unavailable": (503, "server_error"),
    "deadline_exceeded": (504, "server_error"),
    "timeout": (504, "server_error"),
}


class JobFailed(PosthouseError):
    """The job that a caller waited for ended `failed`; carries the job's own code.

    A retry by the SDK would start the same work again, so none is invited (`retryable` is False).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        status, kind = _JOB_FAILURES.get(code, (500, "server_error"))
        self.code = code  # type: ignore[misc]
        self.http_status = status  # type: ignore[misc]
        self.type = kind  # type: ignore[misc]
