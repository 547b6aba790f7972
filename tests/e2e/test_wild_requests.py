"""Thousands of wild requests at a running stack: answered or refused, and never a fault of ours."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.chat_request import ChatRequest
from app.api.responses_request import ResponsesRequest
from tests.support.stack import Stack
from tests.support.waiting import wait_until
from tests.support.wild_requests import bodies

ASKED = {"/v1/chat/completions": ChatRequest, "/v1/responses": ResponsesRequest}
# The paced engine stages faults by such blocks; what it is told to break is no fault of ours.
STAGED = "{{"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("path", ASKED)
def test_wild_requests_make_no_fault(running_stack: Stack, path: str) -> None:
    wait_until(lambda: running_stack.get("/readyz")[0] == 200, what="the stack is ready", limit=60)
    engines = [running_stack.engine_pid(slot=slot) for slot in range(3)]
    seen: set[int] = set()

    @settings(max_examples=1000, deadline=None, derandomize=True, database=None)
    @given(bodies(ASKED[path], "paced").filter(lambda body: STAGED not in str(body)), st.just(path))
    def check(body: dict[str, Any], at: str) -> None:
        # A deadline of a moment ends as 504, and should.
        answer = running_stack.ask("POST", at, {**body, "deadline_seconds": 60})
        seen.add(answer.status)
        assert answer.status < 500 or answer.json["error"]["code"] == "queue_unavailable", (body, answer)

    check()
    assert {200, 400} <= seen
    assert [running_stack.engine_pid(slot=slot) for slot in range(3)] == engines
