"""Durations as OpenAI's headers spell them."""

from __future__ import annotations

import pytest

from app.api.rate_headers import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0115, "12ms"), (0.9999, "1s"), (1, "1s"), (6.2, "7s"), (59.5, "1m0s"), (63, "1m3s"), (120, "2m0s")],
)
def test_a_duration_is_rounded_up(seconds: float, text: str) -> None:
    assert duration(seconds) == text
