"""Early refresh follows the paper's distribution."""

from __future__ import annotations

import math
import random

import pytest

from cache import early


@pytest.mark.parametrize(("left", "compute", "beta"), [(1.0, 2.0, 1.0), (3.0, 2.0, 1.0), (1.0, 0.5, 2.0)])
def test_the_chance_is_exponential_in_what_is_left(left: float, compute: float, beta: float) -> None:
    rng, draws = random.Random(5), 20_000
    renewed = sum(
        early.due(now=1000, fresh_until=1000 + left, compute_seconds=compute, chance=rng.random(), beta=beta)
        for _ in range(draws)
    )
    expected = math.exp(-left / (compute * beta))
    assert renewed / draws == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / draws))


@pytest.mark.parametrize("chance", [0.0, 0.5, 1 - 2**-53])
def test_the_ends_of_the_range(chance: float) -> None:
    assert early.due(now=10, fresh_until=10, compute_seconds=1, chance=chance)
    assert not early.due(now=0, fresh_until=10, compute_seconds=0, chance=chance)
    assert not early.due(now=0, fresh_until=1000, compute_seconds=1, chance=chance)


@pytest.mark.parametrize(("compute", "claim"), [(0, 5_000), (100, 5_000), (10_000, 20_000), (10**9, 120_000)])
def test_a_claim_outlives_the_computation_but_not_for_long(compute: int, claim: int) -> None:
    assert early.claim_ms(compute) == claim
