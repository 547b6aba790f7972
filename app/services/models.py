"""The models that are offered, and what an answer of each is likely to cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import ModelNotFound, QueueUnavailable
from app.sections import ModelSettings
from app.services.api_key import ApiKey
from app.services.catalogue import Catalogue

_FIRST_GUESS = 256.0
_FRESH_SECONDS = 10.0


@dataclass(frozen=True)
class OfferedModel:
    """A model's name, how it is configured, and the revision of its weights (see `model_pool.revision`)."""

    name: str
    settings: ModelSettings
    revision: str = ""


class Models:
    """Looks up models by name.

    Args:
        configured: name to settings; one that may be swapped is a `Catalogue`.
        stats: counters of a model (see `JobStore.stats`).
        now: Unix seconds; the moment of wiring is what the wire shows as `created`.
        monotonic: seconds.
    """

    def __init__(
        self,
        configured: Mapping[str, ModelSettings],
        stats: Callable[[str], Mapping[str, int]],
        *,
        now: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configured = configured if isinstance(configured, Catalogue) else Catalogue(configured)
        self._stats = stats
        self._monotonic = monotonic
        self._means: dict[str, tuple[float, float]] = {}
        self.created = int(now)

    def names(self) -> list[str]:
        return list(self._configured)

    def existing(self, name: str, key: ApiKey | None = None, *, param: str = "model") -> OfferedModel:
        """The model, if there is one of this name and the key may use it. Raises `ModelNotFound` (with `param`)."""
        found = self.offered(name) if key is None or key.may_use(name) else None
        if found is None:
            raise ModelNotFound(
                f"the model {name!r} does not exist here; GET /v1/models lists those that do", param=param
            )
        return found

    def offered(self, name: str) -> OfferedModel | None:
        """The model, if there is one of this name."""
        entry = self._configured.entry(name)
        return None if entry is None else OfferedModel(name, *entry)

    def mean_output(self, name: str) -> float:
        """Output tokens of a model's average answer so far, at most ten seconds old; a guess while there is none."""
        mean, until = self._means.get(name, (_FIRST_GUESS, 0.0))
        if until <= self._monotonic():
            self._means[name] = (mean, self._monotonic() + _FRESH_SECONDS)  # first, so that one caller asks for all
            mean = self._measured(name, mean)
            self._means[name] = (mean, self._monotonic() + _FRESH_SECONDS)
        return mean

    def _measured(self, name: str, otherwise: float) -> float:
        try:
            stats = self._stats(name)
        except QueueUnavailable:
            return otherwise
        answers = stats.get("completed", 0) + stats.get("incomplete", 0)
        return stats.get("tokens_out", 0) / answers if answers else otherwise
