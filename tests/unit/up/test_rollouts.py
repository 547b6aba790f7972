"""What the supervisor does with instances that come up, do not come up, or are overtaken by the next change."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from app.sections import ModelSettings
from app.up.editions import edition_of
from app.up.fleet import Stand
from app.up.rollouts import Rollouts
from app.up.sight import Seen

A_WHILE = 60


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test on a loop of its own, bounded."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), 30))

    return run


def model(revision: str = "a", **more: Any) -> ModelSettings:
    return ModelSettings(**{"engine": "paced", "revision": revision, **more})


@dataclass
class Line:
    waiting: int = 0
    running: int = 0


class House:
    """Fleet, sight, API and clock in one: instances of revisions that are `sick` beat but never become ready."""

    def __init__(self, sick: Collection[str] = ()) -> None:
        self.sick = set(sick)
        self.stands: dict[str, dict[int, Stand]] = {}
        self.said: list[str] = []
        self.offers: list[dict[str, ModelSettings]] = []
        self.lines: dict[str, Line] = {}
        self.fewest: dict[str, int] = {}
        self.forgotten: list[str] = []
        self.now = 0.0
        self.rollouts = Rollouts(
            self,  # type: ignore[arg-type]
            self,
            offer=lambda models: self.offers.append(dict(models)),
            say=self.said.append,
            healthy_seconds=10,
            empty_seconds=30,
            fingerprint=self.fingerprint,
            pause=self.pause,
            monotonic=lambda: self.now,
        )

    async def fingerprint(self, told: ModelSettings) -> str:
        return told.revision

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def begin(self, **models: ModelSettings) -> None:
        self.rollouts.begin(models)
        self.offers.append(models)
        for name, told in models.items():
            self.start(name, range(told.instances), told, told.revision)
            self.fewest[name] = told.instances

    async def until(self, said: str) -> None:
        end = self.now + A_WHILE
        while not any(said in line for line in self.said):
            assert self.now < end, self.said
            await self.pause(0.05)

    def revisions(self, name: str = "m") -> dict[int, str]:
        return {slot: stand.weights for slot, stand in sorted(self.stands.get(name, {}).items())}

    # The fleet.

    def running(self, name: str) -> Mapping[int, Stand]:
        return dict(self.stands.get(name, {}))

    def claims_of_others(self, name: str) -> list[Any]:
        others = ((n, s, stand) for n, stands in self.stands.items() if n != name for s, stand in stands.items())
        return [stand.edition.claim(f"{n}.{s}") for n, s, stand in others]

    def start(self, name: str, slots: Iterable[int], told: ModelSettings, weights: str) -> None:
        for slot in slots:
            self.stands.setdefault(name, {})[slot] = Stand(told, weights, edition_of(told, weights, slot))

    def start_again(self, name: str, stands: Mapping[int, Stand]) -> None:
        self.stands.setdefault(name, {}).update(stands)

    def tell(self, name: str, told: ModelSettings) -> None:
        pass

    async def end(self, name: str, slots: Collection[int]) -> None:
        for slot in slots:
            self.stands[name].pop(slot)
        left = sum(stand.weights not in self.sick for stand in self.stands[name].values())
        self.fewest[name] = min(self.fewest.get(name, left), left)
        await asyncio.sleep(0)

    def deaths(self, name: str, slots: Iterable[int]) -> int:  # noqa: ARG002 -- the signature is the fleet's
        return 0

    # The sight.

    async def look(self, name: str) -> Seen | None:
        stands, line = self.stands.get(name, {}), self.lines.get(name, Line())
        ready = frozenset(slot for slot, stand in stands.items() if stand.weights not in self.sick)
        return Seen(frozenset(stands), ready, line.waiting, line.running)

    async def forget(self, name: str, slots: Collection[int]) -> int | None:
        self.forgotten += [f"{name}.{slot}" for slot in slots]
        return self.lines.get(name, Line()).waiting


@on_a_loop
async def test_a_model_is_offered_once_an_instance_answers_and_not_before() -> None:
    house = House(sick=["slow"])
    house.begin(m=model())
    house.rollouts.change({"m": model(), "n": model("slow")})
    await house.until("starting n.0")
    assert all("n" not in offer for offer in house.offers)
    house.sick.clear()
    await house.until("n is added")
    assert list(house.offers[-1]) == ["m", "n"]
    assert house.revisions() == {0: "a"}


@on_a_loop
async def test_a_new_model_that_does_not_come_up_is_never_offered() -> None:
    house = House(sick=["bad"])
    house.begin(m=model())
    house.rollouts.change({"m": model(), "n": model("bad")})
    await house.until("the change stops here")
    assert (house.revisions("n"), [o for o in house.offers if "n" in o]) == ({}, [])


@pytest.mark.parametrize("instances", [1, 3])
@on_a_loop
async def test_with_a_spare_nobody_is_missed(instances: int) -> None:
    house = House()
    house.begin(m=model(instances=instances))
    house.rollouts.change({"m": model("b", instances=instances)})
    await house.until("m is changed")
    assert house.revisions() == dict.fromkeys(range(instances), "b")
    assert house.fewest["m"] == instances


@on_a_loop
async def test_a_spare_that_does_not_come_up_leaves_everything_as_it_was() -> None:
    house = House(sick=["b"])
    house.begin(m=model(instances=2))
    house.rollouts.change({"m": model("b", instances=2)})
    await house.until("m.2 did not become healthy; the change stops here, with m.0, m.1 running")
    assert house.revisions() == {0: "a", 1: "a"}
    assert house.fewest["m"] == 2
    assert house.offers[-1]["m"].revision == "a"


@on_a_loop
async def test_a_slot_whose_new_instance_does_not_come_up_gets_the_old_one_back() -> None:
    house = House(sick=["b"])
    gpus = {"instances": 2, "devices": ("cuda:0", "cuda:1")}
    house.begin(m=model(**gpus))
    house.rollouts.change({"m": model("b", **gpus)})
    await house.until("the change stops here")
    assert house.revisions() == {0: "a", 1: "a"}
    assert house.fewest["m"] == 1


@on_a_loop
async def test_the_next_change_need_not_wait_for_one_that_gets_nowhere() -> None:
    house = House(sick=["b"])
    house.begin(m=model())
    house.rollouts.change({"m": model("b")})
    await house.until("starting m.1")
    began = house.now
    house.rollouts.change({"m": model("c")})
    await house.until("m is changed")
    assert house.now - began < 10
    assert house.revisions() == {0: "c"}
    assert house.fewest["m"] == 1


@on_a_loop
async def test_an_instance_that_an_overtaken_change_began_must_answer_before_others_end() -> None:
    """Else the same change, told twice, would take the second for granted what the first had not seen yet."""
    house = House(sick=["b"])
    house.begin(m=model())
    house.rollouts.change({"m": model("b")})
    await house.until("starting m.1")
    house.rollouts.change({"m": model("c")})
    house.rollouts.change({"m": model("b")})
    await house.until("the change stops here")
    assert house.fewest["m"] == 1
    assert 0 in house.revisions()


@on_a_loop
async def test_a_model_ends_once_nothing_of_it_waits_or_runs() -> None:
    house = House()
    house.begin(m=model(), n=model())
    house.lines["n"] = Line(waiting=1, running=1)
    house.rollouts.change({"m": model()})
    await house.until("n is offered no more")
    assert list(house.offers[-1]) == ["m"]
    await house.pause(10)
    assert house.revisions("n") == {0: "a"}
    house.lines["n"] = Line()
    await house.until("n is gone")
    assert house.revisions("n") == {}
    assert "n.0" in house.forgotten


@on_a_loop
async def test_what_is_left_when_the_time_is_over_is_told_and_looked_after() -> None:
    house = House()
    house.begin(m=model(), n=model())
    house.lines["n"] = Line(waiting=7)
    house.rollouts.change({"m": model()})
    await house.until("n is gone; 7 requests still wait for it")
    house.lines["n"] = Line()
    end = house.now + A_WHILE
    while house.rollouts.busy:
        assert house.now < end
        await house.pause(0.1)


@on_a_loop
async def test_a_model_that_comes_back_while_it_goes_just_stays() -> None:
    house = House()
    house.begin(m=model(), n=model())
    house.lines["n"] = Line(running=1)
    house.rollouts.change({"m": model()})
    await house.until("n is offered no more")
    house.rollouts.change({"m": model(), "n": model()})
    await house.until("n is added")
    assert house.fewest["n"] == 1
    assert list(house.offers[-1]) == ["m", "n"]


@on_a_loop
async def test_while_both_revisions_serve_only_what_either_can_take_is_accepted() -> None:
    house = House()
    house.begin(m=model(context_length=1000))
    house.rollouts.change({"m": model("b", context_length=500, busy_reply="soon")})
    await house.until("replacing m.0")
    meanwhile = house.offers[-1]["m"]
    assert (meanwhile.revision, meanwhile.context_length, meanwhile.busy_reply) == ("a", 500, "soon")
    await house.until("m is changed")
    assert house.offers[-1]["m"] == model("b", context_length=500, busy_reply="soon")


@on_a_loop
async def test_a_gpu_is_taken_over_when_the_model_that_had_it_is_gone() -> None:
    house = House()
    gpu = {"devices": ("cuda:0",)}
    house.begin(m=model(**gpu))
    house.lines["m"] = Line(running=1)
    house.rollouts.change({"n": model(**gpu)})
    await house.until("n: waiting for cuda:0")
    assert house.revisions("n") == {}
    house.lines["m"] = Line()
    await house.until("n is added")
    assert (house.revisions("m"), house.revisions("n")) == ({}, {0: "a"})
