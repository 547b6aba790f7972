"""Opens the tails of jobs that are about to be kept, before they are, so that everything comes live.

Callers who wait for a shared answer need its end and nothing of its log. Those of one process share one subscription:
a question that the process follows already is opened on that generation at once. In a burst of one question this
halves what each caller costs.
"""

from __future__ import annotations

from collections.abc import Callable

from app.jobs.feed import Feed
from app.jobs.tail import Tail
from app.services.orders import Submitted

_MOST_LEADERS = 1024


class Tails:
    """The use case. `keep` submits the job and returns what became of it; when it raises, no tail is left open."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._leaders: dict[str, str] = {}  # join key to the generation that this process last followed for it

    def stream(self, generation: str, keep: Callable[[], Submitted], *, fresh: bool) -> tuple[Submitted, Tail]:
        """A tail from the first event on. `fresh`: the job is expected to begin `generation` now."""
        if not fresh:
            submitted = keep()
            return submitted, self._feed.open(submitted.view.generation)
        tail = self._feed.open(generation, fresh=True)
        submitted = self._kept(keep, tail)
        if submitted.view.generation != generation:  # it joined another one, or repeats an earlier request
            tail.close()
            tail = self._feed.open(submitted.view.generation)
        return submitted, tail

    def wait(
        self, generation: str, join: str, keep: Callable[[], Submitted], *, fresh: bool
    ) -> tuple[Submitted, Tail | None]:
        """A tail for somebody who needs the end only; None when it has come already.

        Args:
            generation: the one that begins if the job joins none.
            join: what tells the question from others; empty when its answer is not shared.
            keep: as for all of this class.
            fresh: as for `stream`.
        """
        if not fresh:
            submitted = keep()
            return submitted, None if submitted.view.status.terminal else self._end_of(submitted)
        tail = self._feed.open(self._likely(join, generation), start=None, fresh=True)
        submitted = self._kept(keep, tail)
        view = submitted.view
        if view.status.terminal:
            tail.close()
            return submitted, None
        if view.generation != tail.generation:
            self._remember(join, view.generation)
            tail.close()
            tail = self._end_of(submitted)
        return submitted, tail

    def _end_of(self, submitted: Submitted) -> Tail:
        return self._feed.open(submitted.view.generation, start=None)

    def _kept(self, keep: Callable[[], Submitted], tail: Tail) -> Submitted:
        try:
            return keep()
        except BaseException:
            tail.close()
            raise

    def _likely(self, join: str, generation: str) -> str:
        """The generation that the job will probably wait for; the store decides."""
        known = self._leaders.get(join)
        if known is not None and self._feed.follows(known):
            return known
        self._remember(join, generation)
        return generation

    def _remember(self, join: str, generation: str) -> None:
        if not join:
            return
        if len(self._leaders) >= _MOST_LEADERS:  # a lost guess costs a subscription
            self._leaders.clear()
        self._leaders[join] = generation
