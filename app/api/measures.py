"""What this process measures about its own requests. Every series carries the process' id: each process has its own."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Measures:
    """Counts and times requests by route (never by path: paths hold ids)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("process", "method", "route")
        self._process = str(os.getpid())
        self._requests = Counter(
            "posthouse_http_requests", "Requests answered.", (*labels, "status"), registry=registry
        )
        self._seconds = Histogram(
            "posthouse_http_request_seconds", "Time until the last byte left.", labels, buckets=_BUCKETS,
            registry=registry,
        )  # fmt: skip

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        self._requests.labels(self._process, method, route, str(status)).inc()
        self._seconds.labels(self._process, method, route).observe(seconds)
