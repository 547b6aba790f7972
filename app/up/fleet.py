"""The GPU workers of this machine by model and slot, each with what it was started with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.up import plan
from app.up.editions import Edition, edition_of
from model_pool.revision import revision_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from app.sections import ModelSettings
    from app.settings import Settings
    from app.up.console import Console
    from app.up.role_files import RoleFiles
    from app.up.roles import Role
    from app.up.supervisor import Supervisor
    from model_pool.devices import Claim


@dataclass(frozen=True)
class Stand:
    """What runs in one slot: the model as it was configured when it started, and the revision of its weights."""

    model: ModelSettings
    weights: str
    edition: Edition


async def fingerprint_of(model: ModelSettings) -> str:
    """The revision of its weights; looks at the files of a local folder."""
    return await asyncio.to_thread(revision_of, model.path, model.revision)


class Fleet:
    """Starts and ends GPU workers through the supervisor; keeps the books."""

    def __init__(self, settings: Settings, supervisor: Supervisor, console: Console, files: RoleFiles) -> None:
        self._settings = settings
        self._supervisor = supervisor
        self._console = console
        self._files = files
        self._stands: dict[str, dict[int, Stand]] = {}

    def running(self, model: str) -> Mapping[int, Stand]:
        return dict(self._stands.get(model, {}))

    def claims_of_others(self, model: str) -> list[Claim]:
        """What instances of other models claim of the devices."""
        return [
            stand.edition.claim(f"{name}.{slot}")
            for name, stands in self._stands.items()
            if name != model
            for slot, stand in stands.items()
        ]

    def role(self, name: str, slot: int, model: ModelSettings, weights: str) -> Role:
        """The role of a worker that is about to start; from now on it is in the books."""
        self._stands.setdefault(name, {})[slot] = Stand(model, weights, edition_of(model, weights, slot))
        found = plan.worker(self._settings, name, slot)
        self._console.expect([found.name])
        return replace(found, variables=self._files.worker(name, slot, model))

    def start(self, name: str, slots: Iterable[int], model: ModelSettings, weights: str) -> None:
        """Start workers; whether they become healthy is for others to see."""
        self._supervisor.start([self.role(name, slot, model, weights) for slot in slots])

    def start_again(self, name: str, stands: Mapping[int, Stand]) -> None:
        """Start workers as they were."""
        for slot, stand in stands.items():
            self.start(name, [slot], stand.model, stand.weights)

    def tell(self, name: str, model: ModelSettings) -> None:
        """Tell workers that go on of a change which touches none of them (they follow their files)."""
        for slot in self._stands.get(name, {}):
            self._files.worker(name, slot, model)

    async def end(self, name: str, slots: Collection[int]) -> None:
        """Let workers drain and end."""
        await self._supervisor.end([f"gpu.{name}.{slot}" for slot in slots])
        stands = self._stands.get(name, {})
        for slot in slots:
            stands.pop(slot, None)
        if not stands:
            self._stands.pop(name, None)

    def deaths(self, name: str, slots: Iterable[int]) -> int:
        """How often the worst of these workers has died in a row."""
        return max((self._supervisor.deaths(f"gpu.{name}.{slot}") for slot in slots), default=0)
