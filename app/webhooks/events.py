"""What a webhook says: the event of a job's end, serialised once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

EVENT_TYPES: Final = ("response.completed", "response.failed", "response.cancelled", "response.incomplete")
"""What a request's webhook may ask for."""


@dataclass(frozen=True)
class Event:
    """One thing that happened. `body` is what is signed and sent, the same bytes on every attempt."""

    id: str
    type: str
    body: bytes


def response_ended(
    job_id: str, status: str, model: str, metadata: Mapping[str, str], ended_at: float, *, retries: int = 0
) -> Event:
    """The event of a response that reached a terminal state.

    Its id follows from the job's, so making the event again never makes a second id. A job that an operator gave
    another chance has another end, and thus another event.

    Args:
        job_id: `resp_…`.
        status: a terminal one.
        model: as the client named it.
        metadata: the client's own pairs.
        ended_at: seconds since the epoch.
        retries: how often an operator has put it back in line.
    """
    data = {"id": job_id, "object": "response", "status": status, "model": model, "metadata": dict(metadata)}
    return _event(_id(f"{job_id}:{retries}" if retries else job_id), f"response.{status}", data, ended_at)


def _id(end: str) -> str:
    return "evt_" + hashlib.sha256(b"ended:" + end.encode()).hexdigest()[:32]


def _event(event_id: str, kind: str, data: Mapping[str, Any], created_at: float) -> Event:
    event = {"id": event_id, "object": "event", "created_at": int(created_at), "type": kind, "data": data}
    # Escaped to ASCII: no proxy, store or re-encoding on the way can change such bytes.
    return Event(event_id, kind, json.dumps(event, allow_nan=False, separators=(",", ":")).encode("ascii"))
