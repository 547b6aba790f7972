"""A job's events as Responses events: each with the job's own ids, `type` and `sequence_number`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from app.api import sse
from app.api.answers import dumps
from app.api.render_response import item_id, output_item, render_response, text_part
from app.errors import PosthouseError
from app.jobs.events import Event
from app.jobs.job import JobView, Status
from app.services.following import Ended

_SNAPSHOTS = {"created": Status.QUEUED, "queued": Status.QUEUED, "in_progress": Status.IN_PROGRESS}
# There is no event for a cancelled response in the original: it ends as incomplete, with its own status inside.
_LAST = {Status.COMPLETED: "completed", Status.FAILED: "failed"}


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
        self._text: list[str] = []
        place = f'"item_id":{json.dumps(item_id(view.id))},"output_index":0,"content_index":0'
        self._before = f'{{"type":"response.output_text.delta",{place},"delta":'
        self._after_delta = ',"logprobs":[],"sequence_number":'

    def events(self, batch: list[Event]) -> str:
        """The frames of a batch."""
        return "".join([self._frame(e) for e in batch])

    def _frame(self, event: Event) -> str:
        self._next = event.sequence + 1
        kind = event.body["k"]
        if kind == "delta":
            return self._delta(event)
        if event.sequence <= self._after or kind == "end":  # the end is rendered by `ended`
            return ""
        name, fields = self._other(kind)
        return self._whole(f"response.{name}", event.sequence, fields)

    def _delta(self, event: Event) -> str:
        text = event.body["x"]
        self._text.append(text)
        number = event.sequence
        if number <= self._after:
            return ""
        json_text = json.dumps(text, ensure_ascii=False)
        return (
            f"event: response.output_text.delta\nid: {number}\ndata: "
            f"{self._before}{json_text}{self._after_delta}{number}}}\n\n"
        )

    def _other(self, kind: str) -> tuple[str, dict[str, Any]]:
        if kind in _SNAPSHOTS:
            return kind, {"response": self._snapshot(_SNAPSHOTS[kind])}
        job, text = self._view.id, "".join(self._text)
        part = {"item_id": item_id(job), "output_index": 0, "content_index": 0}
        match kind:
            case "item":
                return "output_item.added", {"output_index": 0, "item": output_item(job, "in_progress", [])}
            case "part":
                return "content_part.added", {**part, "part": text_part("")}
            case "text_done":
                return "output_text.done", {**part, "text": text, "logprobs": []}
            case "part_done":
                return "content_part.done", {**part, "part": text_part(text)}
            case "item_done":
                item = output_item(job, "completed", [text_part(text)])
                return "output_item.done", {"output_index": 0, "item": item}
            case _:
                raise ValueError(f"the log holds an event of unknown kind {kind!r}")

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
        text = view.result["text"] if view.result is not None else "".join(self._text)
        name = f"response.{_LAST.get(view.status, 'incomplete')}"
        return self._whole(name, end.sequence, {"response": render_response(view, text)})

    def _whole(self, name: str, number: int, fields: dict[str, Any]) -> str:
        return sse.event(name, number, dumps({"type": name, "sequence_number": number, **fields}))

    def broken(self, error: PosthouseError) -> str:
        """The last frame of a stream that cannot go on, although its job may: resume it later."""
        body = {"type": "error", "code": error.code, "message": error.message, "param": error.param}
        return f"event: error\ndata: {dumps({**body, 'sequence_number': self._next})}\n\n"
