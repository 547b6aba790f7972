"""What a look, an offered answer and a question for statistics can come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cache.breaker import BreakerState
from cache.entry import Entry


class State(StrEnum):
    """How good a found answer is.

    FRESH: serve it. REFRESH: it is fresh, and this caller was chosen to renew it: go on as after a miss, and serve the
    entry only if that fails. STALE: an ordinary miss, unless nobody can give a new answer.
    """

    FRESH = "fresh"
    REFRESH = "refresh"
    STALE = "stale"


class Reason(StrEnum):
    """Why there is no answer.

    BYPASS: the directives forbid to read. ABSENT: none is kept. EXPIRED: only a stale one, which the directives forbid.
    TOO_OLD: older than `max-age`. UNREADABLE: broken or of another version. UNAVAILABLE: the store did not answer.
    """

    BYPASS = "bypass"
    ABSENT = "absent"
    EXPIRED = "expired"
    TOO_OLD = "too_old"
    UNREADABLE = "unreadable"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Hit:
    """A found answer. `age`: whole seconds since it was kept, for the header of that name."""

    entry: Entry
    age: int
    state: State


@dataclass(frozen=True, slots=True)
class Miss:
    """No answer. Under `only-if-cached` this is the caller's 504."""

    reason: Reason


class Kept(StrEnum):
    """What became of an offered answer: KEPT, or why not.

    UNFINISHED: it did not end by `stop`. EMPTY: no text but white space. CONTINUED: two workers made it. OTHER_MODEL:
    not from the model and revision of the key, as after a fallback or a swap. TOO_LARGE: over the bound for one entry.
    UNENCODABLE: its text has no form in UTF-8. UNAVAILABLE: the store did not take it.
    """

    KEPT = "kept"
    UNFINISHED = "unfinished"
    EMPTY = "empty"
    CONTINUED = "continued"
    OTHER_MODEL = "other_model"
    TOO_LARGE = "too_large"
    UNENCODABLE = "unencodable"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The cache as an operator sees it.

    Attributes:
        hits, refreshes, stale, misses, bypass, errors, kept, refused: the fleet's counts, up to a second or so old;
            `errors` are looks and offers that the store failed; a look at a stale answer is in `stale` alone.
        keys, size: in the store; bytes of all its memory.
        local_entries, local_bytes, breaker: of this process.
        available: False when the store did not answer; what comes from it is zero then.
    """

    local_entries: int
    local_bytes: int
    breaker: BreakerState
    available: bool = False
    keys: int = 0
    size: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def hit_ratio(self) -> float | None:
        """Looks that were answered, as a share of those that could have been; None when there was none."""
        answered = sum(self.counts.get(name, 0) for name in ("hits", "refreshes", "stale"))
        looks = answered + self.counts.get("misses", 0)
        return answered / looks if looks else None
