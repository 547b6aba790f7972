"""Which committed answers go into the cache."""

from __future__ import annotations

import json
import time
from typing import Any

from app.jobs.generation import CanonicalRequest, Claim, Result, Usage
from app.jobs.work import Verdict
from cache.keys import CacheKey
from cache.memory_store import MemoryEntryStore
from cache.outcomes import Hit, Kept, Miss, Reason
from tests.support import caches
from workers.keeping import Keeping

KEY = ["t", "m", "r", "d"]
CLAIM = Claim("gen_1", 1, 1, 3, 0, 0, CanonicalRequest([], {}), "t", (), False, True, json.dumps(KEY))


class Shelf:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def keep(self, key: Any, answer: Any) -> Kept:
        self.kept.append((key, answer))
        return Kept.KEPT


def keep(result: Result) -> tuple[bool, Shelf]:
    shelf = Shelf()
    verdict = Verdict("completed", result.usage, result.to_json(), joinable=True)
    return Keeping(shelf, "r").keep(CLAIM, verdict, 1.5), shelf  # type: ignore[arg-type]


def test_a_text_is_kept() -> None:
    kept, shelf = keep(Result("yes", "stop", Usage(1, 1)))
    assert kept
    assert [(key.digest, answer.text, answer.compute_ms) for key, answer in shelf.kept] == [("d", "yes", 1500)]


def test_an_answer_that_is_more_than_a_text_is_not() -> None:
    items = [{"t": "reasoning", "x": "hm"}, {"t": "message", "x": "yes"}]
    kept, shelf = keep(Result("yes", "stop", Usage(2, 2), items=items))
    assert not kept
    assert shelf.kept == []


def test_an_answer_of_another_revision_than_its_keys_is_not_kept() -> None:
    """While instances are replaced a question asked of one revision may be answered by the other."""
    cache = caches.desk(MemoryEntryStore(monotonic=time.monotonic), time.time).cache
    result = Result("yes", "stop", Usage(1, 1))
    verdict = Verdict("completed", result.usage, result.to_json(), joinable=True)
    assert not Keeping(cache, "r2").keep(CLAIM, verdict, 1.5)
    assert cache.look(CacheKey(*KEY)) == Miss(Reason.ABSENT)
    assert Keeping(cache, "r").keep(CLAIM, verdict, 1.5)
    assert isinstance(cache.look(CacheKey(*KEY)), Hit)
