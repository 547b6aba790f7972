"""The unchanging facts of a worker's instance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What does not change about this worker's instance."""

    model: str
    slot: int
    revision: str
    engine: str
    device: str
    capacity: int
    server_counts: bool  # the engine's server counts its generations itself
    restart_grace: float = 30.0  # seconds that what runs gets before an ordered restart
    probes: int = 1  # runs that a half-open breaker lets through
    policy: str = "round_robin"  # whose turn it is: round_robin or least_loaded
