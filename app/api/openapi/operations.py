"""Which operations there are: a table, one row each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from app.api.chat_request import ChatRequest
from app.api.checking import WireModel
from app.api.client_tokens import ClientTokenRequest
from app.api.openapi.schemas import STATUSES
from app.api.responses_request import ResponsesRequest

# What every request with a key may meet: no key, too much, a fault, a queue that is away.
_ALWAYS = (401, 403, 429, 500, 503)
_READING = (400, 404, *_ALWAYS)
# A waiting call ends as its job does, so it may meet every failure of a job.
_MAKING = (404, 409, 413, 415, 504, 400, *_ALWAYS)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the path, the query or a header; `schema` is JSON Schema, `style` OpenAPI's if not the usual."""

    name: str
    place: Literal["path", "query", "header"]
    about: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})
    style: str = ""


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        answer: the schema of its 200; empty for a body that is not JSON.
        streams: the answer may also be an event stream.
        errors: statuses that it may answer besides, all with the error object.
        failures: status to schema for answers that are no error objects.
        leads_to: operations that take the `id` of its answer.
    """

    method: str
    path: str
    name: str
    about: str
    tag: str
    answer: str
    body: type[WireModel] | None = None
    parameters: tuple[Parameter, ...] = ()
    streams: bool = False
    errors: tuple[int, ...] = _ALWAYS
    failures: tuple[tuple[int, str], ...] = ()
    leads_to: tuple[str, ...] = ()
    open: bool = False


def _id(about: str) -> Parameter:
    return Parameter("id", "path", about)


_NUMBER = {"type": "integer", "minimum": 0}
_AFTER = Parameter("after", "query", "the last id of the page before", {"type": "string", "minLength": 1})
_LIMIT = Parameter("limit", "query", "entries a page", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20})
_RESPONSE = _id("a response's id")
_IDEMPOTENCY = Parameter(
    "Idempotency-Key",
    "header",
    "one user action is one generation: a repetition gets the same job",
    {"type": "string", "minLength": 1, "maxLength": 255},
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "post", "/v1/responses", "createResponse", "Make a response: wait for it, stream it, or leave it running",
        "Responses", "Response", body=ResponsesRequest, parameters=(_IDEMPOTENCY,), streams=True, errors=_MAKING,
        leads_to=("readResponse", "cancelResponse", "listInputItems", "deleteResponse"),
    ),
    Operation(
        "get", "/v1/responses", "listResponses", "This tenant's responses, newest first", "Responses", "ResponseList",
        parameters=(
            _AFTER, _LIMIT,
            Parameter("status", "query", "only these", {"type": "string", "enum": STATUSES}),
            Parameter("order", "query", "there is one", {"type": "string", "enum": ["desc"]}),
            Parameter(
                "metadata", "query", "only those with these labels, as `metadata[key]=value`",
                {
                    "type": "object",
                    "propertyNames": {"minLength": 1, "maxLength": 64},
                    "additionalProperties": {"type": "string"},
                },
                style="deepObject",
            ),
        ),
        errors=_READING,
    ),
    Operation(
        "get", "/v1/responses/{id}", "readResponse", "Poll, wait for the end, or resume the event stream", "Responses",
        "Response", streams=True, errors=_READING,
        parameters=(
            _RESPONSE,
            Parameter("wait", "query", "seconds to hold the answer", {"type": "integer", "minimum": 1, "maximum": 60}),
            Parameter("stream", "query", "`true` for the events", {"type": "boolean"}),
            Parameter("starting_after", "query", "resume after this sequence number", _NUMBER),
        ),
    ),
    Operation(
        "delete", "/v1/responses/{id}", "deleteResponse", "End it if it runs, and forget it", "Responses", "Deleted",
        parameters=(_RESPONSE,), errors=_READING,
    ),
    Operation(
        "post", "/v1/responses/{id}/cancel", "cancelResponse", "Cancel; one that has ended stays as it is", "Responses",
        "Response", parameters=(_RESPONSE,), errors=_READING,
    ),
    Operation(
        "get", "/v1/responses/{id}/input_items", "listInputItems", "What the response was asked", "Responses",
        "InputItemList", errors=_READING,
        parameters=(
            _RESPONSE, _AFTER, _LIMIT,
            Parameter("order", "query", "oldest or newest first", {"type": "string", "enum": ["asc", "desc"]}),
        ),
    ),
    Operation(
        "post", "/v1/chat/completions", "createChatCompletion", "Answer a chat, waiting or streamed", "Chat",
        "ChatCompletion", body=ChatRequest, parameters=(_IDEMPOTENCY,), streams=True, errors=_MAKING,
        leads_to=("readChatCompletion",),
    ),
    Operation(
        "get", "/v1/chat/completions/{id}", "readChatCompletion", "Read a chat answer for ten minutes", "Chat",
        "ChatCompletion", parameters=(_id("a chat completion's id"),), errors=_READING,
    ),
    Operation("get", "/v1/models", "listModels", "What is offered", "Models", "ModelList"),
    Operation(
        "get", "/v1/models/{id}", "readModel", "One model", "Models", "Model", parameters=(_id("a model's name"),),
        errors=_READING,
    ),
    Operation(
        "post", "/v1/client_tokens", "createClientToken", "A short-lived token for one end user's browser", "Browsers",
        "ClientToken", body=ClientTokenRequest, errors=(400, 404, 413, 415, *_ALWAYS),
    ),
    Operation("get", "/v1/webhook_secret", "readWebhookSecret", "What signs your webhooks", "Webhooks", "Secret"),
    Operation(
        "post", "/v1/webhook_secret/rotate", "rotateWebhookSecret", "A new one; the old one signs along for a day",
        "Webhooks", "Secret",
    ),
    Operation("get", "/healthz", "readLiveness", "The process lives", "Operation", "Health", errors=(500,), open=True),
    Operation(
        "get", "/readyz", "readReadiness", "A job submitted now would be kept and run", "Operation", "Health",
        errors=(500,), failures=((503, "Health"),), open=True,
    ),
    Operation("get", "/metrics", "readMetrics", "Prometheus metrics (scope admin)", "Operation", ""),
    Operation("get", "/admin/pool", "readPool", "Models, lines and instances (scope admin)", "Operation", "Pool"),
    *(
        Operation(
            "post", f"/admin/pool/{{instance}}/{wish}", f"{wish}Instance", about, "Operation", "Order",
            parameters=(Parameter("instance", "path", "an instance's id"),), errors=_READING,
        )
        for wish, about in (
            ("drain", "Take nothing new until resumed (admin)"),
            ("resume", "Take work again (admin)"),
            ("restart", "Start the engine's process anew, without losing work (admin)"),
        )
    ),
    Operation(
        "get", "/admin/breakers", "listBreakers", "What keeps sick instances out (admin)", "Operation", "Breakers",
    ),
    Operation(
        "post", "/admin/breakers/{name}/reset", "resetBreaker", "Close a breaker (admin)", "Operation", "Breakers",
        parameters=(Parameter("name", "path", "an instance's id"),), errors=_READING,
    ),
    Operation("get", "/admin/queues", "readQueues", "Who waits, and for how long (admin)", "Operation", "Queues"),
    Operation("get", "/admin/cache", "readCache", "What the cache holds and did (admin)", "Operation", "Cache"),
    Operation(
        "delete", "/admin/cache", "clearCache", "Clear it: all, or one tenant's or model's (admin)", "Operation",
        "Cleared", errors=_READING,
        parameters=(Parameter("tenant", "query", "only this one's"), Parameter("model", "query", "only its")),
    ),
    Operation(
        "get", "/admin/jobs", "listDeadLetters", "Jobs given up after their last attempt (admin)", "Operation",
        "DeadLetters", parameters=(Parameter("status", "query", "dead"), Parameter("limit", "query", "1 to 1000")),
        errors=(400, *_ALWAYS),
    ),
    Operation(
        "post", "/admin/jobs/{id}/retry", "retryDeadLetter", "Another chance for a dead letter (admin)", "Operation",
        "Queued", parameters=(Parameter("id", "path", "a job's id"),), errors=(404, 409, *_ALWAYS),
    ),
)  # fmt: skip
