"""Brings the models of a running stack from what they are to what is wanted, without a moment in which nobody serves.

One task per model; models do not wait for each other, unless for a device. A change that comes meanwhile takes the
place of the one under way at the next look.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from app.up.editions import End, Replace, Start, Wait, edition_of, next_step
from app.up.fleet import fingerprint_of
from model_pool.registry import SILENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from app.sections import ModelSettings
    from app.up.editions import Step
    from app.up.fleet import Fleet
    from app.up.sight import Seen, Sight

# API processes look at their file twice a second and read it once it has rested.
_HEARD_SECONDS = 3.0
_LOOK_SECONDS = 0.2
_QUIET_LOOKS = 5
_LEFTOVERS_SECONDS = 5.0
_MOST_DEATHS = 5
# What answers are told apart by, and what prompts are counted with: as it was until the last old instance has gone.
_OF_THE_WEIGHTS = ("engine", "path", "revision", "quantization")


class _SupersededError(Exception):
    """The configuration was read again, and wants something else of this model."""


class Rollouts:
    """Keeps the instances as wanted.

    Args:
        fleet: the workers.
        sight: how the pool is seen.
        offer: tells the API what it offers from now on.
        say: one line for the operator.
        fingerprint: the revision of a model's weights.
        healthy_seconds: an instance may take to become healthy.
        empty_seconds: what waits for a removed model is waited for.
    """

    def __init__(
        self,
        fleet: Fleet,
        sight: Sight,
        *,
        offer: Callable[[Mapping[str, ModelSettings]], object],
        say: Callable[[str], None],
        healthy_seconds: float,
        empty_seconds: float,
        fingerprint: Callable[[ModelSettings], Awaitable[str]] = fingerprint_of,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet = fleet
        self._sight = sight
        self._offer = offer
        self._say = say
        self._healthy_seconds = healthy_seconds
        self._empty_seconds = empty_seconds
        self._fingerprint = fingerprint
        self._pause = pause
        self._monotonic = monotonic
        self._wanted: dict[str, ModelSettings] = {}
        self._offered: dict[str, ModelSettings] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def wanted(self) -> Mapping[str, ModelSettings]:
        return dict(self._wanted)

    @property
    def busy(self) -> bool:
        """Whether any model is under change."""
        return bool(self._tasks)

    def begin(self, models: Mapping[str, ModelSettings]) -> None:
        """These models run from the start."""
        self._wanted, self._offered = dict(models), dict(models)

    def change(self, models: Mapping[str, ModelSettings]) -> None:
        """Want these from now on. Models as wanted are looked at, too: their weights may have been replaced."""
        touched = dict.fromkeys([*self._wanted, *models])
        self._wanted = dict(models)
        for name in touched:
            if name not in self._tasks:
                task = self._tasks[name] = asyncio.create_task(self._follow(name), name=f"rollout of {name}")
                task.add_done_callback(lambda ended, name=name: self._ended(name, ended))  # type: ignore[misc]

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say(f"{name}: the change failed and stops here: {error!r}")

    async def _follow(self, name: str) -> None:
        while True:
            target = self._wanted.get(name)
            try:
                await (self._remove(name) if target is None else self._roll(name, target))
            except _SupersededError:
                continue
            if self._wanted.get(name) is target:
                return

    async def _roll(self, name: str, target: ModelSettings) -> None:
        weights = await self._fingerprint(target)
        known, touched = self._offered.get(name), False
        if known is not None:
            self._offers(name, _meanwhile(known, target))
        if not await self._steady(name, target, weights):
            return
        while step := await self._next(name, target, weights):
            touched = True
            if not await self._do(name, step, target, weights):
                return
            self._check(name, target)
        if name not in self._offered and not await self._healthy(name, self._fleet.running(name), target, least=1):
            self._stop_here(name, self._fleet.running(name))
            return
        self._fleet.tell(name, target)
        self._offers(name, target)
        if touched or known != target:
            await self._pause(_HEARD_SECONDS)
            self._check(name, target)
            count = "1 instance" if target.instances == 1 else f"{target.instances} instances"
            self._say(f"{name} is {'changed' if known is not None else 'added'}: {count}, revision {weights or '-'}")

    async def _steady(self, name: str, target: ModelSettings, weights: str) -> bool:
        """Before old instances are touched the new ones serve: a change that was superseded may have begun some."""
        running = self._fleet.running(name)
        fresh = [slot for slot, stand in running.items() if stand.edition == edition_of(target, weights, slot)]
        if len(fresh) in {0, len(running)} or await self._healthy(name, fresh, target, least=len(fresh)):
            return True
        await self._give_up(name, fresh)
        return False

    async def _give_up(self, name: str, slots: Collection[int]) -> None:
        """End those of these instances that are not healthy."""
        seen = await self._sight.look(name)
        dead = [slot for slot in slots if seen is None or slot not in seen.ready]
        await self._end(name, dead)
        self._stop_here(name, dead)

    async def _next(self, name: str, target: ModelSettings, weights: str) -> Step | None:
        seen = await self._sight.look(name)
        running = {slot: stand.edition for slot, stand in self._fleet.running(name).items()}
        others = self._fleet.claims_of_others(name)
        ready = seen.ready if seen is not None else None
        return next_step(running, lambda slot: edition_of(target, weights, slot), target, others, ready)

    async def _do(self, name: str, step: Step, target: ModelSettings, weights: str) -> bool:
        """Take one step. False when it did not lead where it should; then everything else stays as it is."""
        match step:
            case Start(slots):
                return await self._start(name, slots, target, weights, spare=step.spare)
            case Replace(slot, ends):
                return await self._replace(name, slot, ends, target, weights)
            case End(slots):
                await self._end(name, slots)
                return True
            case Wait(device):
                return await self._wait(name, device, target, weights)

    async def _start(
        self, name: str, slots: Collection[int], target: ModelSettings, weights: str, *, spare: bool
    ) -> bool:
        self._say(f"{name}: starting {_named(name, slots)}{' as a spare, to be ended at last' if spare else ''}")
        await self._until_silent(name, slots)
        self._fleet.start(name, slots, target, weights)
        if name not in self._offered and await self._healthy(name, slots, target, least=1):
            self._offers(name, target)
        if await self._healthy(name, slots, target, least=len(slots)):
            return True
        await self._give_up(name, slots)
        return False

    async def _replace(self, name: str, slot: int, ends: Collection[int], target: ModelSettings, weights: str) -> bool:
        before = {each: stand for each, stand in self._fleet.running(name).items() if each in ends}
        self._say(f"{name}: replacing {_named(name, ends)}")
        await self._fleet.end(name, ends)
        await self._until_silent(name, ends)
        self._fleet.start(name, [slot], target, weights)
        if await self._healthy(name, [slot], target, least=1):
            return True
        await self._fleet.end(name, [slot])
        await self._until_silent(name, [slot])
        self._fleet.start_again(name, before)
        self._stop_here(name, [slot])
        return False

    def _stop_here(self, name: str, slots: Collection[int]) -> None:
        left = ", ".join(f"{name}.{slot}" for slot in sorted(self._fleet.running(name))) or "nothing"
        self._say(
            f"{name}: {_named(name, slots)} did not become healthy; the change stops here, with {left} running. "
            "The lines above say why; `posthouse reload` tries again"
        )

    async def _wait(self, name: str, device: str, target: ModelSettings, weights: str) -> bool:
        self._say(f"{name}: waiting for {device}, which another model has")
        end = self._monotonic() + self._empty_seconds + self._healthy_seconds
        while isinstance(await self._next(name, target, weights), Wait):
            if self._monotonic() > end:
                self._say(f"{name}: {device} did not become free; the change stops here")
                return False
            self._check(name, target)
            await self._pause(_LOOK_SECONDS)
        return True

    async def _remove(self, name: str) -> None:
        if self._offered.pop(name, None) is not None:
            self._publish()
            self._say(f"{name} is offered no more; it ends once nothing of it waits or runs")
        await self._until_empty(name)
        await self._end(name, list(self._fleet.running(name)))
        left = await self._sight.forget(name, ())
        if left:
            self._say(f"{name} is gone; {left} requests still wait for it and end at their deadlines")
        else:
            self._say(f"{name} is gone")
        while left != 0:
            await self._pause(_LEFTOVERS_SECONDS)
            self._check(name, None)
            left = await self._sight.forget(name, ())

    async def _end(self, name: str, slots: Collection[int]) -> None:
        if not slots:
            return
        self._say(f"{name}: ending {_named(name, slots)}")
        await self._fleet.end(name, slots)
        await self._until_silent(name, slots)
        await self._sight.forget(name, slots)

    def _offers(self, name: str, model: ModelSettings) -> None:
        self._offered[name] = model
        self._publish()

    def _publish(self) -> None:
        """In the order of the configuration; what is not (yet) offered keeps its place for later."""
        order = [*(name for name in self._wanted if name in self._offered), *self._offered]
        self._offer({name: self._offered[name] for name in order})

    def _check(self, name: str, target: ModelSettings | None) -> None:
        if self._wanted.get(name) != target:
            raise _SupersededError

    async def _healthy(self, name: str, slots: Collection[int], target: ModelSettings, *, least: int) -> bool:
        """Wait until so many of the slots have an instance that answers; False when they do not in time."""
        end = self._monotonic() + self._healthy_seconds
        while self._monotonic() < end and self._fleet.deaths(name, slots) < _MOST_DEATHS:
            seen = await self._sight.look(name)
            if seen is not None and len(seen.ready & set(slots)) >= least:
                return True
            self._check(name, target)
            await self._pause(_LOOK_SECONDS)
        return False

    async def _until_silent(self, name: str, slots: Collection[int]) -> None:
        """A heartbeat of whoever had the slot before must not pass for the next one's; it runs out by itself."""
        end = self._monotonic() + SILENCE_SECONDS + 1
        while self._monotonic() < end:
            seen = await self._sight.look(name)
            if seen is not None and not seen.slots & set(slots):
                return
            await self._pause(_LOOK_SECONDS)

    async def _until_empty(self, name: str) -> None:
        """Every API process has heard, and nothing waits or runs, for some looks in a row; or the time is over."""
        began, quiet = self._monotonic(), 0
        while self._monotonic() < began + self._empty_seconds:
            seen = await self._sight.look(name)
            quiet = quiet + 1 if _empty(seen) else 0
            if quiet >= _QUIET_LOOKS and self._monotonic() > began + _HEARD_SECONDS:
                return
            self._check(name, None)
            await self._pause(_LOOK_SECONDS)


def _meanwhile(known: ModelSettings, target: ModelSettings) -> ModelSettings:
    """What is offered while old and new instances serve: old weights, and requests that either can take."""
    old = {name: getattr(known, name) for name in _OF_THE_WEIGHTS}
    return target.model_copy(update={**old, "context_length": min(known.context_length, target.context_length)})


def _empty(seen: Seen | None) -> bool:
    return seen is not None and not seen.waiting and not seen.running


def _named(name: str, slots: Collection[int]) -> str:
    return ", ".join(f"{name}.{slot}" for slot in sorted(slots))
