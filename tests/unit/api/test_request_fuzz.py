"""Whatever a body holds, it is either checked into an order or refused; nothing else ever comes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.answers import dumps, error_object
from app.api.chat_request import ChatRequest, chat_order
from app.api.reading import parse_object
from app.api.responses_request import ResponsesRequest, responses_order
from app.errors import InvalidRequest, JobNotFound, ModelNotFound, PermissionDenied
from app.sections import ModelSettings
from app.services.keys import DEV_KEY, ApiKey
from app.services.models import Models
from app.services.orders import Order
from tests.support.wild_requests import anything, bodies

MODELS = Models({"m": ModelSettings(engine="vllm", context_length=2048)}, lambda _: {}, now=0)
REFUSALS = (InvalidRequest, ModelNotFound, JobNotFound, PermissionDenied)
COUNTS = pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])


def nobody(previous: str, key: ApiKey) -> list[dict[str, Any]]:
    raise JobNotFound("no earlier response here", param="previous_response_id")


def assert_engine_can_take(order: Order) -> None:
    """What goes on to a worker is JSON, and of the shape that chat templates know."""
    assert json.loads(dumps([order.messages, order.params, order.metadata, order.echo]))
    assert all(isinstance(message["role"], str) for message in order.messages)
    assert order.max_tokens is None or order.max_tokens >= 1


def tried(count: int, values: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """The same values at every run, so that a failure can be seen again."""
    # The time that a try takes depends on what else this machine does.
    rules = settings(max_examples=count, deadline=None, derandomize=True, database=None)
    rules(given(values)(check))()


@COUNTS
def test_a_chat_is_taken_or_refused(count: int) -> None:
    def check(body: dict[str, Any]) -> None:
        with suppress(*REFUSALS):
            assert_engine_can_take(chat_order(body, DEV_KEY, MODELS, None))

    tried(count, bodies(ChatRequest, "m"), check)


@COUNTS
def test_a_response_is_taken_or_refused(count: int) -> None:
    def check(body: dict[str, Any]) -> None:
        with suppress(*REFUSALS):
            assert_engine_can_take(responses_order(body, DEV_KEY, MODELS, None, nobody))

    tried(count, bodies(ResponsesRequest, "m"), check)


@COUNTS
def test_bytes_are_an_object_or_refused_with_an_error_that_can_be_sent(count: int) -> None:
    def check(body: bytes) -> None:
        found = parsed(body)
        assert found is None or json.loads(dumps(found).encode()) == found

    tried(count, st.one_of(st.binary(max_size=60), anything.map(lambda value: json.dumps(value).encode())), check)


def parsed(body: bytes) -> dict[str, Any] | None:
    try:
        return parse_object(body)
    except InvalidRequest as error:
        dumps(error_object(error)).encode()
        return None
