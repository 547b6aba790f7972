"""`POST /v1/chat/completions`: the request, checked, and what it asks for in neutral terms."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api import content, tool_messages
from app.api.checking import Budget, Effort, Penalty, TopLogprobs, WireModel, parse
from app.api.common_request import CommonRequest, benchmark_params, budget_of, check_params, owner_of
from app.api.response_format import ResponseFormat
from app.api.tools import ChatTool, ToolChoice, tool_params
from app.errors import InvalidRequest
from app.jobs.job import Idempotency, Kind
from app.services.keys import ApiKey
from app.services.models import Models
from app.services.orders import Order

_MESSAGE_FIELDS = ("role", "content", "name")


class StreamOptions(WireModel):
    """`stream_options`."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatRequest(CommonRequest):
    """The body. `n` is known so that it can be refused in plain words."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    stream_options: StreamOptions | None = None
    max_tokens: Budget = None
    max_completion_tokens: Budget = None
    presence_penalty: Penalty = None
    frequency_penalty: Penalty = None
    response_format: ResponseFormat | None = None
    n: int | None = None
    tools: list[ChatTool] | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs = None
    reasoning_effort: Effort | None = None

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
    tool_messages.check_answers(messages, "messages")
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
    if asked.top_logprobs is not None and not asked.logprobs:
        raise InvalidRequest("top_logprobs: only with logprobs: true", param="top_logprobs")
    if asked.stream_options is not None and not asked.stream:
        raise InvalidRequest("stream_options: only with stream: true", param="stream_options")


def _message(item: dict[str, Any], param: str, model: str) -> dict[str, Any]:
    if item.get("role") == "tool":
        return tool_messages.chat_answer(item, param, model)
    if item.get("role") == "assistant" and item.get("tool_calls"):
        return _calling_message(item, param, model)
    content.refuse_unknown(item, _MESSAGE_FIELDS, param)
    role = content.role_of(item, param)
    text = content.text_of(item.get("content"), f"{param}.content", model)
    return {"role": role, "content": text, **content.name_of(item, param)}


def _calling_message(item: dict[str, Any], param: str, model: str) -> dict[str, Any]:
    """The assistant's message with calls of tools; its text may be missing."""
    content.refuse_unknown(item, (*_MESSAGE_FIELDS, "tool_calls"), param)
    given = item.get("content")
    text = content.text_of(given, f"{param}.content", model) if given else ""
    calls = tool_messages.chat_calls(item["tool_calls"], f"{param}.tool_calls")
    return {"role": "assistant", "content": text, **content.name_of(item, param), "tool_calls": calls}


def _params(asked: ChatRequest) -> dict[str, Any]:
    params = asked.params()
    for name in ("presence_penalty", "frequency_penalty"):
        if getattr(asked, name) is not None:
            params[name] = getattr(asked, name)
    if asked.reasoning_effort is not None:
        params["reasoning_effort"] = asked.reasoning_effort
    if asked.logprobs:
        params |= {"logprobs": True, "top_logprobs": asked.top_logprobs or 0}
    form = asked.response_format.param() if asked.response_format else None
    if form is not None:
        params["response_format"] = form
    tools = [tool.function for tool in asked.tools or ()]
    return {**params, **tool_params(tools, asked.tool_choice, parallel=asked.parallel_tool_calls)}
