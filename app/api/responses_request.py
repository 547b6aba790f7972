"""`POST /v1/responses`: the request, checked, and what it asks for in neutral terms."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from app.api import content
from app.api.checking import Budget, WireModel, parse
from app.api.common_request import CommonRequest, benchmark_params, check_params, owner_of
from app.api.response_format import TextOptions
from app.errors import InvalidRequest, PermissionDenied, UnsupportedContent
from app.jobs.job import Idempotency, Kind, Webhook
from app.services.keys import ApiKey
from app.services.models import Models
from app.services.submit import Order

_ITEM_FIELDS = ("type", "role", "content", "name", "id", "status", "phase")

Earlier = Callable[[str, ApiKey], list[dict[str, Any]]]
TerminalEvent = Literal["response.completed", "response.failed", "response.cancelled", "response.incomplete"]


class WebhookRequest(WireModel):
    """`webhook`: where this job's end is told."""

    url: Annotated[str, Field(min_length=1, max_length=2048)]
    events: list[TerminalEvent] | None = None


class ResponsesRequest(CommonRequest):
    """The body. Some fields are known so that they can be refused in plain words."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    max_output_tokens: Budget = None
    text: TextOptions | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None
    webhook: WebhookRequest | None = None


def responses_order(
    body: dict[str, Any], key: ApiKey, models: Models, idempotency: Idempotency | None, earlier: Earlier
) -> Order:
    """Check a body and say what it asks for. `earlier` gives what was said up to an earlier response.

    Raises:
        InvalidRequest, UnsupportedContent, ModelNotFound: naming the field at fault.
    """
    asked = parse(ResponsesRequest, body)
    model = models.existing(asked.model, key)
    _refuse_what_is_not_offered(asked)
    turns = _turns(asked.input, model.name)
    content.check_says_something(turns, "input")
    before = earlier(asked.previous_response_id, key) if asked.previous_response_id is not None else []
    params = _params(asked)
    check_params(params, model.name, model.settings)
    return Order(
        kind=Kind.RESPONSE,
        key=key,
        model=model.name,
        messages=[*_instructions(asked), *before, *turns],
        params={**params, **benchmark_params(asked, key)},
        max_tokens=asked.max_output_tokens,
        budget_param="max_output_tokens",
        tier=asked.tier,
        deadline_seconds=asked.deadline_seconds,
        background=bool(asked.background),
        stream=bool(asked.stream),
        store=asked.store is not False,
        metadata=asked.metadata or {},
        echo=_echo(asked),
        input_items=[_input_item(turn) for turn in turns],
        webhook=_webhook(asked, key),
        idempotency=idempotency,
        user=owner_of(asked, key),
    )


def _refuse_what_is_not_offered(asked: ResponsesRequest) -> None:
    if asked.tools:
        raise InvalidRequest("tools: function tools are not offered here", param="tools")


def _turns(given: str | list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not given:
        raise InvalidRequest("input: the list of messages is empty", param="input")
    return [_turn(item, f"input[{at}]", model) for at, item in enumerate(given)]


def _turn(item: dict[str, Any], param: str, model: str) -> dict[str, Any]:
    kind = item.get("type", "message")
    if kind != "message":
        raise UnsupportedContent(f"{param}: model {model!r} takes messages only, not {str(kind)[:64]!r}", param=param)
    content.refuse_unknown(item, _ITEM_FIELDS, param)
    role = content.role_of(item, param)
    return {"role": role, "content": content.text_of(item.get("content"), f"{param}.content", model)}


def _instructions(asked: ResponsesRequest) -> list[dict[str, Any]]:
    return [{"role": "system", "content": asked.instructions}] if asked.instructions else []


def _params(asked: ResponsesRequest) -> dict[str, Any]:
    form = asked.text.format.param() if asked.text and asked.text.format else None
    return asked.params() if form is None else {**asked.params(), "response_format": form}


def _webhook(asked: ResponsesRequest, key: ApiKey) -> Webhook | None:
    if asked.webhook is not None and key.owner:
        raise PermissionDenied("webhook: not with a client token; it would be signed for your server", param="webhook")
    return None if asked.webhook is None else Webhook(asked.webhook.url, tuple(asked.webhook.events or ()))


def _input_item(turn: dict[str, Any]) -> dict[str, Any]:
    kind = "output_text" if turn["role"] == "assistant" else "input_text"
    parts = [{"type": kind, "text": turn["content"]}]
    return {"id": f"msg_{secrets.token_hex(16)}", "type": "message", "role": turn["role"], "content": parts}


def _echo(asked: ResponsesRequest) -> dict[str, Any]:
    """The request's fields that the response object shows again."""
    names = (
        "instructions",
        "previous_response_id",
        "max_output_tokens",
        "user",
        "safety_identifier",
        "prompt_cache_key",
    )
    text = asked.text.model_dump(by_alias=True, exclude_none=True) if asked.text else {}
    return {
        **{name: getattr(asked, name) for name in names},
        "temperature": 1.0 if asked.temperature is None else asked.temperature,
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
        "text": {"format": {"type": "text"}, **text},
    }
