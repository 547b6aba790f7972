"""What to do next so that a model's instances become what is wanted, one safe step at a time. Pure.

Looked at anew after each step, so that a file which changes half-way only changes what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.sections import ModelSettings
from model_pool.devices import Claim, DeviceConflictError, check, device_of

_GPU = "cuda"
# What an instance does not notice: it concerns the API, or which slots there are. Devices count slot by slot.
_NOT_ITS = ("instances", "devices", "policy", "rollout", "fallback", "busy_reply", "cache")
_DEFAULTS = {name: field.get_default(call_default_factory=True) for name, field in ModelSettings.model_fields.items()}


@dataclass(frozen=True)
class Edition:
    """What one instance runs; two instances of equal editions answer alike.

    Attributes:
        serving: the settings that its process was started with, without those that it does not notice.
        weights: their revision (see `model_pool.revision`): weights replaced in their folder are another edition.
        device: its own.
    """

    serving: ModelSettings
    weights: str
    device: str

    def claim(self, instance: str) -> Claim:
        return Claim(instance, self.device, self.serving.memory_share)


def edition_of(model: ModelSettings, weights: str, slot: int) -> Edition:
    """The edition that this slot should run."""
    serving = model.model_copy(update={name: _DEFAULTS[name] for name in _NOT_ITS})
    return Edition(serving, weights, device_of(model.devices, slot))


@dataclass(frozen=True)
class Start:
    """Start instances in these free slots. `spare`: one more than wanted, so that others may be replaced."""

    slots: tuple[int, ...]
    spare: bool = False


@dataclass(frozen=True)
class Replace:
    """End these instances, then start one in `slot`, which is among them."""

    slot: int
    ends: tuple[int, ...]


@dataclass(frozen=True)
class End:
    """These instances are not wanted any more."""

    slots: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    """Another model's instance has to leave this device first."""

    device: str


Step = Start | Replace | End | Wait


def surges(model: ModelSettings) -> bool:
    """Whether a spare instance may run beside the others for a while: as configured, else where no GPU is pinned."""
    if model.rollout is not None:
        return model.rollout == "surge"
    return not any(device.startswith(_GPU) for device in model.devices)


def next_step(
    running: Mapping[int, Edition],
    wanted: Callable[[int], Edition],
    model: ModelSettings,
    others: Sequence[Claim] = (),
    ready: Collection[int] | None = None,
) -> Step | None:
    """The next step from the instances that run to those that are wanted; None when there is nothing left to do.

    Args:
        running: slot to edition.
        wanted: the edition of a slot.
        model: as wanted: how many instances, and how they may be replaced.
        others: what instances of other models claim of the devices.
        ready: slots whose instance serves; None: all. Who serves nobody goes first.
    """
    floor = _Floor(running, wanted, others)
    missing = [slot for slot in range(model.instances) if slot not in running]
    serving = set(running) if ready is None else set(running) & set(ready)
    outdated = [slot for slot, edition in running.items() if edition != wanted(slot)]
    outdated.sort(key=lambda slot: (slot in serving, slot))
    inside = [slot for slot in outdated if slot < model.instances]
    if useless := tuple(slot for slot in outdated if slot >= model.instances and slot not in serving):
        return End(useless)
    if missing and (fitting := floor.fitting(missing)):
        return Start(fitting)
    if missing and not outdated:
        return Wait(wanted(missing[0]).device)
    if inside or missing:
        excess = len(serving) > model.instances or len(running) > len(outdated) or (inside or missing)[0] not in serving
        if surges(model) and not excess and (spare := floor.spare(model)) is not None:
            return Start((spare,), spare=True)
        return _replace(running, outdated, (inside or missing)[0], floor)
    extra = tuple(sorted(slot for slot in running if slot >= model.instances))
    return End(extra) if extra else None


def _replace(running: Mapping[int, Edition], outdated: Sequence[int], slot: int, floor: _Floor) -> Step:
    ends = [slot] if slot in running else []
    for other in outdated:
        if floor.fits(slot, without=ends):
            break
        ends += [other] if other not in ends else []
    return Replace(slot, tuple(ends)) if floor.fits(slot, without=ends) else Wait(floor.wanted(slot).device)


class _Floor:
    """Who stands where: whether the devices hold one more."""

    def __init__(
        self, running: Mapping[int, Edition], wanted: Callable[[int], Edition], others: Sequence[Claim]
    ) -> None:
        self._running = running
        self._others = list(others)
        self.wanted = wanted

    def fits(self, *slots: int, without: Iterable[int] = ()) -> bool:
        """Whether instances can start in all of these slots at once, once those `without` have ended."""
        gone = set(without)
        standing = [edition.claim(str(slot)) for slot, edition in self._running.items() if slot not in gone]
        try:
            check([*self._others, *standing, *(self.wanted(slot).claim(str(slot)) for slot in slots)])
        except DeviceConflictError:
            return False
        return True

    def fitting(self, slots: Iterable[int]) -> tuple[int, ...]:
        """Those of the slots, taken in order, that can start together."""
        found: tuple[int, ...] = ()
        for slot in slots:
            found = (*found, slot) if self.fits(*found, slot) else found
        return found

    def spare(self, model: ModelSettings) -> int | None:
        """A slot beyond the wanted ones whose device has room."""
        first = max([model.instances, *(slot + 1 for slot in self._running)])
        candidates = range(first, first + max(1, len(model.devices)))
        return next((slot for slot in candidates if self.fits(slot)), None)
