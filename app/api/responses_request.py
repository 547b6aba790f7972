"""`POST /v1/responses`: the request, checked, and what it asks for in neutral terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.api import content, tool_messages
from app.api.checking import Budget, Effort, TopLogprobs, WireModel, parse
from app.api.common_request import CommonRequest, benchmark_params, check_params, owner_of
from app.api.input_items import items_of, turns_of
from app.api.response_format import TextOptions
from app.api.tools import ResponsesTool, ToolChoice, tool_params
from app.errors import InvalidRequest, PermissionDenied
from app.jobs.job import Idempotency, Kind, Webhook
from app.services.keys import ApiKey
from app.services.models import Models
from app.services.orders import Order

_LOGPROBS = "message.output_text.logprobs"
_SPELLED = {"response_format": "text.format", "reasoning_effort": "reasoning.effort", "logprobs": "include"}

Earlier = Callable[[str, ApiKey], list[dict[str, Any]]]
TerminalEvent = Literal["response.completed", "response.failed", "response.cancelled", "response.incomplete"]


def _check_input(value: Any) -> Any:
    """Said here, because of a choice of types the parser would name a type as if it were a field."""
    if not isinstance(value, str | list):
        raise ValueError("must be text or a list of items")  # noqa: TRY004 -- pydantic's way
    for at, item in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(item, dict):
            raise InvalidRequest(f"input[{at}]: must be an object", param=f"input[{at}]")
    return value


class WebhookRequest(WireModel):
    """`webhook`: where this job's end is told."""

    url: Annotated[str, Field(min_length=1, max_length=2048)]
    events: list[TerminalEvent] | None = None


class ReasoningOptions(WireModel):
    """`reasoning`."""

    effort: Effort | None = None


class ResponsesRequest(CommonRequest):
    """The body."""

    input: Annotated[str | list[dict[str, Any]], BeforeValidator(_check_input)]
    instructions: str | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    max_output_tokens: Budget = None
    text: TextOptions | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningOptions | None = None
    include: list[Literal["message.output_text.logprobs"]] | None = None
    top_logprobs: TopLogprobs = None
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
    turns = turns_of(asked.input, model.name)
    content.check_says_something(turns, "input")
    before = earlier(asked.previous_response_id, key) if asked.previous_response_id is not None else []
    tool_messages.check_answers([*before, *turns], "input")
    params = _params(asked)
    check_params(params, model.name, model.settings, _SPELLED)
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
        input_items=[item for turn in turns for item in items_of(turn)],
        webhook=_webhook(asked, key),
        idempotency=idempotency,
        user=owner_of(asked, key),
    )


def _instructions(asked: ResponsesRequest) -> list[dict[str, Any]]:
    return [{"role": "system", "content": asked.instructions}] if asked.instructions else []


def _params(asked: ResponsesRequest) -> dict[str, Any]:
    params = asked.params()
    if asked.reasoning and asked.reasoning.effort:
        params["reasoning_effort"] = asked.reasoning.effort
    if asked.top_logprobs or _LOGPROBS in (asked.include or ()):
        params |= {"logprobs": True, "top_logprobs": asked.top_logprobs or 0}
    form = asked.text.format.param() if asked.text and asked.text.format else None
    if form is not None:
        params["response_format"] = form
    tools = [tool.function for tool in asked.tools or ()]
    return {**params, **tool_params(tools, asked.tool_choice, parallel=asked.parallel_tool_calls)}


def _webhook(asked: ResponsesRequest, key: ApiKey) -> Webhook | None:
    if asked.webhook is not None and key.owner:
        raise PermissionDenied("webhook: not with a client token; it would be signed for your server", param="webhook")
    return None if asked.webhook is None else Webhook(asked.webhook.url, tuple(asked.webhook.events or ()))


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
        **_echo_tools(asked),
    }


def _echo_tools(asked: ResponsesRequest) -> dict[str, Any]:
    choice = asked.tool_choice or "auto"
    return {
        "tools": [tool.model_dump(exclude_none=True) for tool in asked.tools or ()],
        "tool_choice": {"type": "function", **choice} if isinstance(choice, dict) else choice,
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "reasoning": {"effort": asked.reasoning.effort if asked.reasoning else None, "summary": None},
        "top_logprobs": asked.top_logprobs or 0,
    }
