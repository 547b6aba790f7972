"""Probabilistic early refresh: a hot answer is renewed before it expires, by one request.

XFetch (Vattani, Chierichetti, Lowenstein: Optimal Probabilistic Cache Stampede Prevention, VLDB 2015): a request that
finds an answer expiring at `e` renews it already when

    now + compute * beta * -ln(u) >= e        with u uniform in (0, 1]

so the chance rises towards the end, and the earlier the dearer the answer is. The draws need no coordination, but under
load several would win; a short claim in the store lets one of them go.
"""

from __future__ import annotations

import math

_LEAST_CLAIM_MS = 5_000
_MOST_CLAIM_MS = 120_000


def due(*, now: float, fresh_until: float, compute_seconds: float, chance: float, beta: float = 1.0) -> bool:
    """Whether this request should renew the answer.

    Args:
        now: Unix seconds.
        fresh_until: when the answer expires, Unix seconds.
        compute_seconds: what the answer took.
        chance: uniform in [0, 1).
        beta: over 1 renews earlier, under 1 later; 1 is the paper's optimum.
    """
    return now - compute_seconds * beta * math.log(1.0 - chance) >= fresh_until


def claim_ms(compute_ms: int) -> int:
    """How long one refresher keeps others from trying: twice what the answer took, within 5 s and 2 minutes.

    Longer than copies in other processes live, so that these have seen the new answer when the claim ends; short enough
    that another one tries when the refresher died.
    """
    return min(max(2 * compute_ms, _LEAST_CLAIM_MS), _MOST_CLAIM_MS)
