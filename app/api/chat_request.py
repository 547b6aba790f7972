"""`POST /v1/chat/completions`: the request, checked, and what it asks for in neutral terms."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.api import content
from app.api.checking import Budget, Penalty, WireModel, parse
from app.api.common_request import CommonRequest, benchmark_params, budget_of, check_params, owner_of
from app.api.response_format import ResponseFormat
from app.errors import InvalidRequest
from app.jobs.job import Idempotency, Kind
from app.services.keys import ApiKey
from app.services.models import Models
from app.services.submit import Order

_MESSAGE_FIELDS = ("role", "content", "name")


class StreamOptions(WireModel):
    """`stream_options`."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatRequest(CommonRequest):
    """The body. `n`, `tools` and `logprobs` are known so that they can be refused in plain words."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    stream_options: StreamOptions | None = None
    max_tokens: Budget = None
    max_completion_tokens: Budget = None
    presence_penalty: Penalty = None
    frequency_penalty: Penalty = None
    response_format: ResponseFormat | None = None
    n: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


def chat_order(body: dict[str, Any], key: ApiKey, models: Models, idempotency: Idempotency | None) -> Order:
    """Check a body and say what it asks for.

    Raises:
        InvalidRequest, UnsupportedContent, ModelNotFound: naming the field at fault.
    """
    asked = parse(ChatRequest, body)
    model = models.existing(asked.model, key)
    _refuse_what_is_not_offered(asked)
    messages = [_message(m, f"messages[{at}]", model.name) for at, m in enumerate(asked.messages)]
    content.check_says_something(messages, "messages")
    params = _params(asked)
    check_params(params, model.name, model.settings)
    return Order(
        kind=Kind.CHAT,
        key=key,
        model=model.name,
        messages=messages,
        params={**params, **benchmark_params(asked, key)},
        max_tokens=budget_of(asked.max_completion_tokens, asked.max_tokens),
        budget_param="max_tokens" if asked.max_completion_tokens is None else "max_completion_tokens",
        tier=asked.tier,
        deadline_seconds=asked.deadline_seconds,
        stream=bool(asked.stream),
        metadata=asked.metadata or {},
        echo={"include_usage": asked.include_usage},
        idempotency=idempotency,
        user=owner_of(asked, key),
    )


def _refuse_what_is_not_offered(asked: ChatRequest) -> None:
    if asked.n is not None and asked.n != 1:
        raise InvalidRequest("n: one answer a request; send the request again for another", param="n")
    if asked.tools:
        raise InvalidRequest("tools: function tools are not offered here", param="tools")
    if asked.logprobs:
        raise InvalidRequest("logprobs: log-probabilities are not offered here", param="logprobs")
    if asked.stream_options is not None and not asked.stream:
        raise InvalidRequest("stream_options: only with stream: true", param="stream_options")


def _message(item: dict[str, Any], param: str, model: str) -> dict[str, Any]:
    content.refuse_unknown(item, _MESSAGE_FIELDS, param)
    role = content.role_of(item, param)
    text = content.text_of(item.get("content"), f"{param}.content", model)
    return {"role": role, "content": text, **content.name_of(item, param)}


def _params(asked: ChatRequest) -> dict[str, Any]:
    params = asked.params()
    for name in ("presence_penalty", "frequency_penalty"):
        if getattr(asked, name) is not None:
            params[name] = getattr(asked, name)
    form = asked.response_format.param() if asked.response_format else None
    return params if form is None else {**params, "response_format": form}
