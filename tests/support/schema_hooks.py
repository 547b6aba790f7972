"""Lets schemathesis reach an engine: most bodies name the model that is there, and say something to it."""

from __future__ import annotations

from typing import Any

import schemathesis

MODEL = "paced"
SAID: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "input": "hi"}


@schemathesis.hook
def map_body(_context: schemathesis.HookContext, body: Any) -> Any:
    """Only what has the right form is replaced, so that bodies which are wrong stay wrong."""
    if not isinstance(body, dict):
        return body
    said = {name: SAID[name] for name in body.keys() & SAID if _has_form(body[name])}
    model = body.get("model")
    named = {"model": MODEL} if isinstance(model, str) and 0 < len(model) < 200 else {}
    return {**body, **said, **named, **_in_time(body)}


def _in_time(body: dict[str, Any]) -> dict[str, Any]:
    """A deadline of a moment ends a waiting call as 504, and an answer without an end takes long, as they should."""
    asked = body.get("deadline_seconds")
    later = {"deadline_seconds": 60} if type(asked) in {int, float} and 0 < asked < 60 else {}
    return {**later, **({"ignore_eos": False} if body.get("ignore_eos") is True else {})}


def _has_form(said: Any) -> bool:
    return isinstance(said, str) or (isinstance(said, list) and said != [] and all(isinstance(m, dict) for m in said))
