"""After a good answer is committed, it goes into the cache: best effort, in the background, never a reason to fail."""

from __future__ import annotations

import json

from app.jobs.generation import Claim
from app.jobs.work import Verdict
from cache.entry import Answer, Usage
from cache.keys import CacheKey
from cache.outcomes import Kept
from cache.response_cache import ResponseCache


class Keeping:
    """Hands committed answers to the cache.

    Args:
        revision: of the weights that this worker's instance really serves; a key made for others is refused.
    """

    def __init__(self, cache: ResponseCache, revision: str) -> None:
        self._cache = cache
        self._revision = revision

    def keep(self, claim: Claim, verdict: Verdict, seconds: float) -> bool:
        """Whether the answer was kept. Blocks for at most the cache's timeout."""
        result = json.loads(verdict.result)
        if result.get("items"):
            return False  # an entry keeps a text, and this answer is more than that
        key = CacheKey(*json.loads(claim.cache))
        answer = Answer(
            text=result["text"],
            finish_reason=result["finish_reason"],
            usage=Usage(**result["usage"]),
            model=key.model,
            revision=self._revision,
            compute_ms=int(seconds * 1000),
        )
        return self._cache.keep(key, answer) is Kept.KEPT
