"""A job: what a client asked for and sees. Pure records and the legal transitions between statuses."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1


class Status(StrEnum):
    """Statuses of jobs and generations: those of the OpenAI Responses API."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"

    @property
    def terminal(self) -> bool:
        return self not in {Status.QUEUED, Status.IN_PROGRESS}


_LEGAL: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.IN_PROGRESS, Status.FAILED, Status.CANCELLED}),
    Status.IN_PROGRESS: frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.INCOMPLETE}),
}


def may_become(old: Status, new: Status) -> bool:
    """Whether a status may change from `old` to `new`. The Lua scripts are tested against this table."""
    return new in _LEGAL.get(old, frozenset())


class Kind(StrEnum):
    """Which endpoint a job came from; decides its id's prefix and its retention."""

    RESPONSE = "response"
    CHAT = "chat"


_PREFIX = {Kind.RESPONSE: "resp_", Kind.CHAT: "chatcmpl-"}
_JOB_ID = re.compile(r"(resp_|chatcmpl-)[0-9a-f]{32}")


def new_job_id(kind: Kind) -> str:
    """A fresh id, 128 random bits: `resp_…` or `chatcmpl-…`."""
    return _PREFIX[kind] + secrets.token_hex(16)


def is_job_id(text: str) -> bool:
    """Whether a text has the form of a job id; anything else is unknown without asking Redis."""
    return _JOB_ID.fullmatch(text) is not None


@dataclass(frozen=True)
class Webhook:
    """Where a job's terminal event goes. `events` empty means all of them."""

    url: str
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class Idempotency:
    """An Idempotency-Key and its body, both as digests: keys may hold anything, and bodies are long."""

    key_digest: str
    body_digest: str


@dataclass(frozen=True)
class NewJob:
    """A checked request about to be accepted.

    Attributes:
        deadline_seconds: from acceptance; past it the job ends `failed` with `deadline_exceeded`.
        retention_seconds: how long the job stays readable after its deadline.
        echo: request fields that the wire shows again in the response object (JSON-able).
        input_items: the caller's input as wire items (JSON-able).
    """

    id: str
    kind: Kind
    tenant: str
    key_id: str
    model: str
    tier: str
    deadline_seconds: float
    retention_seconds: float
    background: bool = False
    stream: bool = False
    store: bool = True
    metadata: dict[str, str] = field(default_factory=dict)
    echo: dict[str, Any] = field(default_factory=dict)
    input_items: list[dict[str, Any]] = field(default_factory=list)
    webhook: Webhook | None = None
    idempotency: Idempotency | None = None
    user: str = ""


@dataclass(frozen=True)
class JobFailure:
    """Why a job failed: a code of the wire and a message for the caller."""

    code: str
    message: str


@dataclass(frozen=True)
class JobView:
    """A job as its owner may see it now, derived from its own record and its generation's.

    Times are Unix milliseconds of Redis' clock. `position` is the rank in the model's line (0 is next) while queued,
    `eta_seconds` the wait that is expected from there, None where nothing was measured or nobody is healthy.
    `end_sequence` is the number of the job's own terminal event when it left its generation early, else None.
    `result` is what the engine gave (see `generation.Result`), present once the generation ended with one.
    `degraded`: another model than the one asked for stands in, or the busy reply does.
    """

    id: str
    kind: Kind
    tenant: str
    generation: str
    model: str
    status: Status
    tier: str
    created_at: int
    deadline_at: int
    now: int
    background: bool
    stream: bool
    store: bool
    metadata: dict[str, str]
    echo: dict[str, Any]
    input_items: list[dict[str, Any]]
    webhook: Webhook | None
    key_id: str = ""
    user: str = ""
    started_at: int | None = None
    ended_at: int | None = None
    position: int | None = None
    eta_seconds: float | None = None
    attempts: int = 0
    retries: int = 0
    end_sequence: int | None = None
    failure: JobFailure | None = None
    result: dict[str, Any] | None = None
    cache: str = "miss"
    degraded: bool = False
    keyed: bool = False
