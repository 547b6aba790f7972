"""The cache's observer: counters for `/metrics` and lines for the log."""

from __future__ import annotations

import structlog
from prometheus_client import Counter

from cache.breaker import BreakerState

_looks = Counter("posthouse_cache_looks", "looks into the response cache", ["model", "outcome"])
_kept = Counter("posthouse_cache_offered", "answers offered to the response cache", ["model", "outcome"])
_failures = Counter("posthouse_cache_failures", "calls to the cache's Redis that failed", ["operation"])

_log = structlog.get_logger(__name__)


class CacheMetrics:
    """Implements `cache.observers.CacheObserver`. Model names come from the configuration, so labels are bounded."""

    def looked(self, model: str, outcome: str) -> None:
        _looks.labels(model=model, outcome=outcome).inc()

    def kept(self, model: str, outcome: str, size: int) -> None:  # noqa: ARG002 -- the signature is the Protocol's
        _kept.labels(model=model, outcome=outcome).inc()

    def store_failed(self, operation: str, error: str) -> None:
        _failures.labels(operation=operation).inc()
        _log.debug("cache_store_failed", operation=operation, error=error)

    def breaker_changed(self, state: BreakerState) -> None:
        _log.warning("cache_breaker", state=str(state))
