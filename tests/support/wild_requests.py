"""Hypothesis strategies for request bodies that nobody would write: half right, half anything."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from app.api.chat_request import ChatRequest
from app.api.responses_request import ResponsesRequest

_WORDS = ["", " ", "user", "system", "assistant", "tool", "text", "input_text", "image_url", "message", "function",
          "function_call", "json_schema", "paced", "\u3000", "驿", "👩‍👩‍👧", "\x1b[0m", "{{", "}}", "%s"]  # fmt: skip
_NAMES = ["role", "content", "type", "text", "name", "tool_calls", "id", "function", "arguments", "schema", "events",
          "url", "call_id", "output", "include_usage", "format", "json_schema", "parameters", "strict"]  # fmt: skip
_TEXTS = st.one_of(st.sampled_from(_WORDS), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
_NUMBERS = st.one_of(
    st.integers(), st.sampled_from([0, -1, 2**31, 2**63, 2**64, -(2**63), 10**300]), st.floats(allow_nan=False)
)
_LEAVES = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS)

anything = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.sampled_from(_NAMES), _TEXTS), inner, max_size=5)
    ),
    max_leaves=12,
)
"""A JSON value of any shape; dictionaries like the wire's own words."""

_PART = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "input_text", "output_text"]), "text": _TEXTS}), anything
)
_MESSAGE = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "king"])},
        optional={"content": st.one_of(_TEXTS, st.lists(_PART, max_size=3), anything), "name": anything,
                  "tool_calls": anything, "tool_call_id": anything, "type": anything},
    ),
    anything,
)  # fmt: skip
messages = st.one_of(st.lists(_MESSAGE, max_size=4), anything)
"""A list of messages, or something that should have been one."""


_NULLS = st.none()  # means the same as leaving the field out
_GOOD = st.just([{"role": "user", "content": "hi"}])


def bodies(request: type[ChatRequest | ResponsesRequest], model: str) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies with a few of the request's fields, right ones and wrong ones, and now and then a foreign field."""
    said = {"messages" if request is ChatRequest else "input": st.one_of(_GOOD, messages)}
    names = sorted(set(request.model_fields) - {"model", *said})
    fields = st.dictionaries(st.sampled_from(names), st.one_of(_NULLS, anything), max_size=3)
    known = st.fixed_dictionaries({"model": st.just(model), **said})
    return st.builds(lambda body, some, more: {**body, **some, **more}, known, fields, st.one_of(st.just({}), _foreign))


_foreign = st.dictionaries(st.one_of(st.sampled_from(_NAMES), _TEXTS), anything, max_size=2)
