"""What is written together does not expire together, and nothing is kept for ever or for no time."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import CacheConfigError
from cache.ttl import MOST_SECONDS, Lifetime


def test_no_second_of_the_window_holds_more_than_two_percent() -> None:
    lifetime, rng = Lifetime(ttl=600, jitter=0.2), random.Random(7)
    ends = [i / 10_000 + lifetime.fresh_seconds(rng.random()) for i in range(10_000)]
    seconds = Counter(int(end) for end in ends)
    assert max(seconds.values()) <= 200
    assert len(seconds) >= 240


@given(
    st.floats(min_value=1e-9, max_value=MOST_SECONDS),
    st.floats(min_value=0, max_value=0.9),
    st.floats(min_value=0, max_value=1, exclude_max=True),
)
def test_freshness_lies_in_the_window_and_is_a_second_at_least(ttl: float, jitter: float, chance: float) -> None:
    lifetime = Lifetime(ttl, jitter, stale_seconds=0)
    fresh = lifetime.fresh_seconds(chance)
    mean = max(ttl, 1)
    assert fresh >= 1
    assert mean * (1 - jitter) * 0.999999 <= fresh <= mean * (1 + jitter) * 1.000001
    assert lifetime.kept_ms(fresh) >= 1000


def test_a_short_lifetime_is_spread_too() -> None:
    """Draws below a second are not folded onto it."""
    lifetime, rng = Lifetime(ttl=1, jitter=0.5), random.Random(7)
    drawn = [lifetime.fresh_seconds(rng.random()) for _ in range(1000)]
    assert len(set(drawn)) == 1000
    assert sum(fresh < 1.05 for fresh in drawn) < 200


def test_the_store_keeps_an_answer_beyond_its_freshness() -> None:
    assert Lifetime(ttl=10, jitter=0, stale_seconds=5.5).kept_ms(10) == 15_500


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("ttl", v) for v in (0, -1, float("nan"), float("inf"), MOST_SECONDS + 1, True)),
        *(("jitter", v) for v in (-0.1, 0.91, 1, float("nan"))),
        *(("stale_seconds", v) for v in (-1, float("nan"), float("inf"), MOST_SECONDS + 1)),
    ],
)
def test_absurd_values_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(CacheConfigError, match=f"cache {field} is .*: give"):
        Lifetime(**{field: value})
