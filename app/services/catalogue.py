"""The models that are offered now: one mapping for everybody in a process, swapped whole while requests flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from app.sections import ModelSettings
from model_pool.revision import revision_of

Entry = tuple[ModelSettings, str]


class Catalogue(Mapping[str, ModelSettings]):
    """Name to settings. Whoever keeps one sees each swap, all of it or nothing; lookups take no lock.

    A model that a swap leaves as it was keeps its very object, so that what was made for it can be told by identity.

    Args:
        models: what is offered first.
        fingerprint: the revision of a model's weights, from path and configured revision; looks at files, so it is
            called once for each model and swap.
    """

    def __init__(
        self, models: Mapping[str, ModelSettings], fingerprint: Callable[[str, str], str] = revision_of
    ) -> None:
        self._fingerprint = fingerprint
        self._entries: Mapping[str, Entry] = {}
        self.swap(models)

    def __getitem__(self, name: str) -> ModelSettings:
        return self._entries[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, name: str) -> Entry | None:
        """Settings and revision of a model, of the same moment; None when there is none of this name."""
        return self._entries.get(name)

    def swap(self, models: Mapping[str, ModelSettings]) -> list[str]:
        """Offer these from now on; the names that came, went or changed, in order."""
        before = self._entries
        now = {name: self._as_before(before.get(name), self._entry(model)) for name, model in models.items()}
        self._entries = MappingProxyType(now)
        return [name for name in {**before, **now} if before.get(name) is not now.get(name)]

    def _entry(self, model: ModelSettings) -> Entry:
        return model, self._fingerprint(model.path, model.revision)

    @staticmethod
    def _as_before(old: Entry | None, new: Entry) -> Entry:
        return old if old is not None and old == new else new
