"""An answer's items as output items of a Responses object: messages, reasoning, calls of functions."""

from __future__ import annotations

from typing import Any

from app.jobs.output import CALL, MESSAGE, REASONING, Item

_PREFIX = {MESSAGE: "msg_", REASONING: "rs_", CALL: "fc_"}


def item_id(job_id: str, kind: str = MESSAGE, place: int = 0) -> str:
    """The id of the item at `place` in a job's output: the job's own digits, and the place if it is not the first."""
    return _PREFIX[kind] + job_id.removeprefix("resp_") + (f"_{place}" if place else "")


def text_part(item: Item) -> dict[str, Any]:
    """A message's one part."""
    return {"type": "output_text", "text": item.text, "annotations": [], "logprobs": list(item.logprobs or ())}


def begun_item(job_id: str, item: Item, place: int) -> dict[str, Any]:
    """An item that has just begun: everything but what it says."""
    head = {"id": item_id(job_id, item.kind, place), "type": item.kind, "status": "in_progress"}
    match item.kind:
        case "call":
            return {**head, "type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": ""}
        case "reasoning":
            return {**head, "summary": [], "content": []}
        case _:
            return {**head, "role": "assistant", "content": []}


def output_item(job_id: str, item: Item, place: int, status: str) -> dict[str, Any]:
    """An item with all that it says."""
    body = {**begun_item(job_id, item, place), "status": status}
    match item.kind:
        case "call":
            return {**body, "arguments": item.text}
        case "reasoning":
            return {**body, "content": [{"type": "reasoning_text", "text": item.text}]}
        case _:
            return {**body, "content": [text_part(item)]}
