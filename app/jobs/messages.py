"""What a generation's live channel says: events as they are logged, or that a job has left early."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_core import from_json

from app.jobs.events import Event


@dataclass(frozen=True, slots=True)
class Left:
    """A job ended before its generation; `end` is the sequence number of its own terminal event."""

    job: str
    end: int


Message = list[Event] | Left


def parse(data: str) -> Message:
    """A message of `ph:live:<generation>`: `{"n": first number, "e": [event, …]}` or `{"job": id, "end": n}`."""
    body = from_json(data)
    if "job" in body:
        return Left(body["job"], body["end"])
    return [Event(number, event) for number, event in enumerate(body["e"], body["n"])]
