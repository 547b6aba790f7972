"""What the cache means for a submit: may it be read, joined, kept; and what it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import CacheMiss
from app.jobs.generation import CanonicalRequest, Result, Usage
from app.services.models import OfferedModel
from cache import policy
from cache.directives import Directives
from cache.keys import CacheKey, cache_key
from cache.outcomes import Hit, State
from cache.response_cache import ResponseCache


@dataclass(frozen=True)
class Plan:
    """How one request stands to the cache. `key` is None for a request whose answer is nobody else's."""

    key: CacheKey | None
    directives: Directives

    @property
    def join(self) -> str:
        """The digest under which identical requests share a generation; empty for none."""
        return self.key.digest if self.key is not None and self.directives.may_read else ""

    @property
    def keep(self) -> str:
        """The key for the worker, as JSON; empty when the answer is not to be kept."""
        if self.key is None or not self.directives.may_store:
            return ""
        return json.dumps([self.key.tenant_digest, self.key.model, self.key.revision, self.key.digest])


@dataclass(frozen=True)
class Found:
    """An answer that may be given at once. `state` is hit or stale, `age` in seconds."""

    result: Result
    state: str
    age: int


class Answers:
    """Asks the cache on behalf of `Submit`.

    Args:
        nobody: whether no instance of a model is healthy; asked only when a stale answer is at hand.
    """

    def __init__(self, cache: ResponseCache, nobody: Callable[[str], bool]) -> None:
        self._cache = cache
        self._nobody = nobody

    def plan(
        self,
        *,
        tenant: str,
        model: OfferedModel,
        given: Mapping[str, object],
        request: CanonicalRequest,
        wishes: Directives,
    ) -> Plan:
        """Decide from what the client gave (`given`, without defaults) and what the engine will get (`request`)."""
        judgement = policy.judge(given, model.settings.cache.policy, opted_in=wishes.allow)
        if not judgement.cacheable:
            return Plan(None, wishes)
        key = cache_key(
            tenant=tenant,
            model=model.name,
            revision=model.revision,
            quantization=model.settings.quantization,
            request={"messages": request.messages, "params": request.params},
        )
        return Plan(key, wishes)

    def find(self, plan: Plan) -> Found | None:
        """A kept answer that may be given.

        Raises:
            CacheMiss: there is none, and the caller wants nothing else (`only-if-cached`).
        """
        found = self._look(plan)
        if found is None and plan.directives.only_if_cached:
            raise CacheMiss("no kept answer for this request; send it without only-if-cached to have it made")
        return found

    def _look(self, plan: Plan) -> Found | None:
        if plan.key is None or not plan.directives.may_read:
            return None
        hit = self._cache.look(plan.key, plan.directives)
        if not isinstance(hit, Hit) or hit.state is State.REFRESH:
            return None
        if hit.state is State.STALE and not self._nobody(plan.key.model):
            return None
        usage = Usage(hit.entry.usage.input_tokens, hit.entry.usage.output_tokens, hit.entry.usage.cached_tokens)
        result = Result(hit.entry.text, hit.entry.finish_reason, usage)
        return Found(result, "stale" if hit.state is State.STALE else "hit", int(hit.age))
