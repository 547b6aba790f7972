"""What became of jobs that came while instances were bad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.support.attempts import Attempt
from benchmarks.support.flow import Ran


@dataclass(frozen=True)
class Trial:
    """A flow over instances of which some go bad: the records, all attempts, and since when an instance was bad."""

    jobs: Sequence[Ran]
    attempts: Sequence[Attempt]
    bad: Mapping[str, float]  # instance -> Unix seconds

    @property
    def failed(self) -> list[Attempt]:
        """Attempts that a bad instance did not complete."""
        return [attempt for attempt in self.attempts if attempt.instance in self.bad and not attempt.completed]

    def given(self, instance: str) -> int:
        """Jobs that went to a bad instance after it had gone bad, until it was itself again."""
        return sum(a.instance == instance and a.began >= self.bad[instance] for a in self.failed)

    def others(self) -> list[Ran]:
        """Jobs that no bad instance held."""
        held = {attempt.generation for attempt in self.failed}
        return [job for job in self.jobs if job.generation not in held]
