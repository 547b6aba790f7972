"""Who may do what: an API key without its secret, and how it stands in Redis. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from app.jobs.job import JobView

Scope = Literal["use", "admin"]
Tier = Literal["priority", "default", "flex"]
TIERS: tuple[Tier, ...] = get_args(Tier)


@dataclass(frozen=True)
class ApiKey:
    """A caller's rights.

    Attributes:
        id: names the key to operators; not secret. Limits are counted under it.
        scope: `use` may run jobs; `admin` may do that and operate the house.
        tier_cap: the best service tier that its jobs may have.
        created_at: Unix seconds.
        requests_per_minute, tokens_per_minute: None: not limited.
        models: the only models that it may use; empty: all.
        owner: set where a client token shows this key: it may see and touch jobs of this key whose `user` is the same,
            and no others.
    """

    id: str
    tenant: str
    name: str
    scope: Scope
    tier_cap: Tier
    created_at: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    models: tuple[str, ...] = ()
    owner: str = ""

    @property
    def is_admin(self) -> bool:
        return self.scope == "admin"

    def may_use(self, model: str) -> bool:
        """Whether the key's list of models has this one."""
        return not self.models or model in self.models

    def sees(self, job: JobView) -> bool:
        """Whether a job exists for this caller: its tenant's, and with a client token the end user's own only."""
        if job.tenant != self.tenant:
            return False
        return not self.owner or (job.key_id == self.id and job.user == self.owner)


def to_fields(key: ApiKey) -> dict[str, str]:
    """The fields of `ph:apikey:<sha256>`. A limit that is not set is an empty text."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "scope": key.scope,
        "tier_cap": key.tier_cap,
        "created_at": str(key.created_at),
        "requests_per_minute": str(key.requests_per_minute or ""),
        "tokens_per_minute": str(key.tokens_per_minute or ""),
        "models": json.dumps(key.models),
    }


def from_fields(fields: Mapping[str, str]) -> ApiKey:
    """The key of a record; fields that an older version did not write have their defaults."""
    scope: Any = fields["scope"]
    tier: Any = fields["tier_cap"]
    return ApiKey(
        id=fields["id"],
        tenant=fields["tenant"],
        name=fields["name"],
        scope=scope,
        tier_cap=tier,
        created_at=int(fields["created_at"]),
        requests_per_minute=_limit(fields.get("requests_per_minute")),
        tokens_per_minute=_limit(fields.get("tokens_per_minute")),
        models=tuple(json.loads(fields.get("models") or "[]")),
    )


def _limit(text: str | None) -> int | None:
    return int(text) if text else None
