"""A job's events as Responses events: each with the job's own ids, `type` and `sequence_number`."""

from __future__ import annotations

from dataclasses import replace
from json.encoder import encode_basestring
from typing import Any

from app.api import sse
from app.api.answers import dumps
from app.api.render_items import begun_item, item_id, output_item, text_part
from app.api.render_response import render_response
from app.errors import PosthouseError
from app.jobs.events import Event
from app.jobs.job import JobView, Status
from app.jobs.output import MESSAGE, Gathering, Item, from_result
from app.services.following import Ended

_SNAPSHOTS = {"created": Status.QUEUED, "queued": Status.QUEUED, "in_progress": Status.IN_PROGRESS}
# There is no event for a cancelled response in the original: it ends as incomplete, with its own status inside.
_LAST = {Status.COMPLETED: "completed", Status.FAILED: "failed"}
_BEGINS = frozenset({"item", "r_item", "call"})
_ENDS = frozenset({"item_done", "r_item_done", "call_done"})
_PARTS = frozenset({"part", "text_done", "part_done", "r_done", "args_done"})
_DELTAS = {
    "delta": "response.output_text.delta",
    "r_delta": "response.reasoning_text.delta",
    "args": "response.function_call_arguments.delta",
}


class ResponseEvents:
    """Renders events from the log's beginning on; what the caller has seen is left out but still remembered.

    Args:
        view: the job.
        after: the last sequence number that the caller has; -1: none.
    """

    def __init__(self, view: JobView, *, after: int = -1) -> None:
        self._view = view
        self._after = after
        self._next = 0
        self._said = Gathering()
        self._place: dict[str, Any] = {}
        self._before = self._placed(MESSAGE, 0)

    def events(self, batch: list[Event]) -> str:
        """The frames of a batch."""
        return "".join([self._frame(e) for e in batch])

    def _frame(self, event: Event) -> str:
        number = event.sequence
        self._next = number + 1
        self._said.add(event)
        kind = event.body["k"]
        if kind in _BEGINS:
            self._before = self._placed(self._said.current.kind, self._said.place)
        if number <= self._after or kind == "end":  # the end is rendered by `ended`
            return ""
        if kind in _DELTAS:
            return self._delta(_DELTAS[kind], event)
        name, fields = self._other(kind)
        return self._whole(f"response.{name}", number, fields)

    def _placed(self, kind: str, place: int) -> str:
        """Remember where the item stands; the same as the beginning of its deltas' JSON."""
        self._place = {"item_id": item_id(self._view.id, kind, place), "output_index": place}
        if kind != "call":
            self._place["content_index"] = 0
        return dumps(self._place)[1:-1]

    def _delta(self, name: str, event: Event) -> str:
        """Assembled by hand: most of what is sent is this."""
        text, number = encode_basestring(event.body["x"]), event.sequence
        logprobs = f',"logprobs":{dumps(event.body.get("l", []))}' if event.body["k"] == "delta" else ""
        return (
            f"event: {name}\nid: {number}\ndata: "
            f'{{"type":"{name}",{self._before},"delta":{text}{logprobs},"sequence_number":{number}}}\n\n'
        )

    def _other(self, kind: str) -> tuple[str, dict[str, Any]]:
        if kind in _SNAPSHOTS:
            return kind, {"response": self._snapshot(_SNAPSHOTS[kind])}
        if kind not in _BEGINS | _ENDS | _PARTS:
            raise ValueError(f"the log holds an event of unknown kind {kind!r}")
        item, place = self._said.current, self._said.place
        if kind in _BEGINS:
            return "output_item.added", {"output_index": place, "item": begun_item(self._view.id, item, place)}
        if kind in _ENDS:
            whole = output_item(self._view.id, item, place, "completed")
            return "output_item.done", {"output_index": place, "item": whole}
        return self._part(kind, item)

    def _part(self, kind: str, item: Item) -> tuple[str, dict[str, Any]]:
        match kind:
            case "part":
                return "content_part.added", {**self._place, "part": text_part(replace(item, text="", logprobs=None))}
            case "text_done":
                return "output_text.done", {**self._place, "text": item.text, "logprobs": list(item.logprobs or ())}
            case "part_done":
                return "content_part.done", {**self._place, "part": text_part(item)}
            case "r_done":
                return "reasoning_text.done", {**self._place, "text": item.text}
            case _:
                named = {"name": item.name, "arguments": item.text}
                return "function_call_arguments.done", {**self._place, **named}

    def _snapshot(self, status: Status) -> dict[str, Any]:
        """The response as it was when this was logged."""
        return render_response(
            replace(self._view, status=status, result=None, failure=None, ended_at=None, position=None)
        )

    def ended(self, end: Ended) -> str:
        """The terminal event."""
        if end.sequence <= self._after:
            return ""
        view = end.view
        output = from_result(view.result) if view.result is not None else self._said.output
        name = f"response.{_LAST.get(view.status, 'incomplete')}"
        return self._whole(name, end.sequence, {"response": render_response(view, output)})

    def _whole(self, name: str, number: int, fields: dict[str, Any]) -> str:
        return sse.event(name, number, dumps({"type": name, "sequence_number": number, **fields}))

    def broken(self, error: PosthouseError) -> str:
        """The last frame of a stream that cannot go on, although its job may: resume it later."""
        body = {"type": "error", "code": error.code, "message": error.message, "param": error.param}
        return f"event: error\ndata: {dumps({**body, 'sequence_number': self._next})}\n\n"
