"""What the benchmark of the line makes of its times."""

from __future__ import annotations

from benchmarks import line
from benchmarks.support.steps import Took


def test_a_ratio_of_the_line_is_one_of_medians_within_a_round():
    quiet = {line.EASIEST: Took([100, 110, 900], [50]), (100, 0): Took([150, 165, 170], [50])}
    busy = {line.EASIEST: Took([200], [90]), (100, 0): Took([400], [90])}
    assert line.ratios([quiet, busy], "submit", (100, 0)) == [1.5, 2.0]
    assert line.medians([quiet, busy], "claim", line.EASIEST) == [50, 90]
