"""An engine that answers badly once: nothing of it is given again, and who asks next gets the good answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.shaky_engine import GOOD, ShakyEngine
from tests.support.stack import Stack
from tests.support.waiting import wait_until

ATTEMPTS = 3


@pytest.fixture(scope="module")
def engine() -> Iterator[ShakyEngine]:
    found = ShakyEngine()
    yield found
    found.close()


@pytest.fixture(scope="module")
def shaky(engine: ShakyEngine) -> Iterator[Stack]:
    stack = Stack(
        f'[models.far]\nengine = "remote"\ncontext_length = 1000\noptions = {{ url = "{engine.url}" }}\n'
        f"[jobs]\nmax_attempts = {ATTEMPTS}\n[breaker]\nminimum = 100\n"
    )
    yield stack
    assert stack.stop() == 0


def submit(stack: Stack, text: str, **fields: Any) -> dict[str, Any]:
    return stack.submit(text, model="far", temperature=0, **fields)


def fails_by_itself(stack: Stack, text: str) -> None:
    assert stack.ended(submit(stack, text)["id"])["status"] == "failed"


def is_cancelled(stack: Stack, text: str) -> None:
    job_id = submit(stack, text)["id"]
    stack.reaches(job_id, "in_progress")
    assert stack.ask("POST", f"/v1/responses/{job_id}/cancel", {}).json["status"] == "cancelled"


def runs_out_of_time(stack: Stack, text: str) -> None:
    job = stack.ended(submit(stack, text, deadline_seconds=1)["id"])
    assert job["error"]["code"] == "deadline_exceeded"


def is_cut_by_its_budget(stack: Stack, text: str) -> None:
    assert stack.ended(submit(stack, text)["id"])["status"] == "incomplete"


def says_nothing(stack: Stack, text: str) -> None:
    job = stack.ended(submit(stack, text)["id"])
    assert stack.text_of(job) == ""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (f"error {ATTEMPTS} times", fails_by_itself),
        ("cut 1 times", fails_by_itself),
        ("empty 1 times", says_nothing),
        ("length 1 times", is_cut_by_its_budget),
        ("hang 1 times until cancelled", is_cancelled),
        ("hang 1 times until too late", runs_out_of_time),
    ],
)
def test_the_next_who_asks_reaches_the_engine_and_gets_the_good_answer(
    shaky: Stack, engine: ShakyEngine, text: str, first: Callable[[Stack, str], None]
) -> None:
    first(shaky, text)
    before = engine.asked[text]
    job = shaky.ended(submit(shaky, text)["id"])
    assert (job["status"], shaky.text_of(job), job["cache"]) == ("completed", GOOD, "miss")
    assert engine.asked[text] == before + 1
    again = wait_until(lambda: (found := submit(shaky, text))["cache"] == "hit" and found, what="the good one is kept")
    assert shaky.text_of(again) == GOOD
