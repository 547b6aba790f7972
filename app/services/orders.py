"""What goes into a submit and what comes out of it: plain records, no HTTP and no Redis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.jobs.job import Idempotency, JobView, Kind, Webhook
from app.services.keys import ApiKey
from cache.directives import Directives

_NO_WISHES = Directives()


@dataclass(frozen=True)
class Order:
    """What a caller asked for, checked and in neutral terms; the wire's own shapes end here.

    Attributes:
        params: engine fields from the allow-list, without `max_tokens`.
        max_tokens: the answer's budget as asked for, or None.
        budget_param: how the wire spells that budget's field.
        tier: service tier as asked for; the key's cap may lower it.
        echo, input_items: see `NewJob`.
        wishes: what the caller says about the cache.
    """

    kind: Kind
    key: ApiKey
    model: str
    messages: list[dict[str, Any]]
    params: dict[str, Any]
    max_tokens: int | None
    budget_param: str
    tier: str = "default"
    deadline_seconds: float | None = None
    background: bool = False
    stream: bool = False
    store: bool = True
    metadata: dict[str, str] = field(default_factory=dict)
    echo: dict[str, Any] = field(default_factory=dict)
    input_items: list[dict[str, Any]] = field(default_factory=list)
    webhook: Webhook | None = None
    idempotency: Idempotency | None = None
    user: str = ""
    wishes: Directives = _NO_WISHES

    @property
    def prompt_param(self) -> str:
        """How the wire spells the field that holds the prompt."""
        return "messages" if self.kind is Kind.CHAT else "input"


@dataclass(frozen=True)
class Submitted:
    """A kept job as it was at that moment.

    Attributes:
        replayed: an Idempotency-Key named a job that was there before.
        cache: hit, miss, joined or stale; bypass for a request that the cache has nothing to do with.
        age: seconds since a cached answer was made, None for others.
        position: rank in line when it was accepted, None for what did not have to wait in it.
        eta_seconds: expected wait from there, None when nobody could say.
    """

    view: JobView
    replayed: bool
    cache: str = "bypass"
    age: int | None = None
    position: int | None = None
    eta_seconds: float | None = None
