"""The order in which a model's instances are replaced."""

from __future__ import annotations

from typing import Any

import pytest

from app.sections import ModelSettings
from app.up.editions import Edition, End, Replace, Start, Step, Wait, edition_of, next_step, surges
from model_pool.devices import Claim


def model(**more: Any) -> ModelSettings:
    return ModelSettings(**{"engine": "paced", "revision": "b", **more})


def editions(told: ModelSettings, *slots: int, weights: str = "") -> dict[int, Edition]:
    return {slot: edition_of(told, weights or told.revision, slot) for slot in slots}


def walk(running: dict[int, Edition], told: ModelSettings, others: tuple[Claim, ...] = ()) -> list[Step]:
    """All steps to the end; after each of them the instances are as it says."""
    steps: list[Step] = []
    while step := next_step(running, lambda slot: edition_of(told, told.revision, slot), told, others):
        steps.append(step)
        match step:
            case Start(slots):
                running |= editions(told, *slots)
            case Replace(slot, ends):
                running = {s: e for s, e in running.items() if s not in ends} | editions(told, slot)
            case End(slots):
                running = {s: e for s, e in running.items() if s not in slots}
            case Wait():
                break
        assert len(steps) < 20
    return steps


def test_a_new_model_starts_all_of_its_instances() -> None:
    assert walk({}, model(instances=3)) == [Start((0, 1, 2))]


def test_what_is_as_wanted_is_left_alone() -> None:
    told = model(instances=2)
    assert walk(editions(told, 0, 1), told) == []


def test_a_spare_instance_comes_first_and_leaves_last() -> None:
    before = editions(model(revision="a"), 0, 1)
    assert walk(before, model(instances=2)) == [Start((2,), spare=True), Replace(0, (0,)), Replace(1, (1,)), End((2,))]


def test_even_one_instance_is_never_missed() -> None:
    assert walk(editions(model(revision="a"), 0), model()) == [Start((1,), spare=True), Replace(0, (0,)), End((1,))]


def test_pinned_gpus_are_replaced_one_after_another_in_place() -> None:
    gpus = {"devices": ("cuda:0", "cuda:1"), "instances": 2}
    before = editions(model(revision="a", **gpus), 0, 1)
    assert walk(before, model(**gpus)) == [Replace(0, (0,)), Replace(1, (1,))]


def test_a_spare_on_gpus_is_taken_where_it_was_asked_for_and_fits() -> None:
    gpus = {"devices": ("cuda:0", "cuda:1"), "rollout": "surge"}
    before = editions(model(revision="a", **gpus), 0)
    assert walk(before, model(**gpus)) == [Start((1,), spare=True), Replace(0, (0,)), End((1,))]
    full = {**gpus, "instances": 2}
    assert walk(editions(model(revision="a", **full), 0, 1), model(**full)) == [Replace(0, (0,)), Replace(1, (1,))]


def test_without_a_spare_where_it_was_asked_for() -> None:
    before = editions(model(revision="a"), 0, 1)
    assert walk(before, model(instances=2, rollout="replace")) == [Replace(0, (0,)), Replace(1, (1,))]


def test_instances_that_are_added_along_with_a_change_come_first_instead_of_a_spare() -> None:
    assert walk(editions(model(revision="a"), 0), model(instances=2)) == [Start((1,)), Replace(0, (0,))]


def test_instances_that_leave_along_with_a_change_serve_until_the_others_are_new() -> None:
    before = editions(model(revision="a"), 0, 1, 2)
    assert walk(before, model(instances=2)) == [Replace(0, (0,)), Replace(1, (1,)), End((2,))]


def test_who_serves_nobody_goes_first_and_needs_no_spare() -> None:
    told = model(instances=2)
    before = editions(model(revision="a"), 0, 1)
    step = next_step(before, lambda slot: edition_of(told, "b", slot), told, ready={0})
    assert step == Replace(1, (1,))
    before |= editions(model(revision="x"), 2)  # a spare that an overtaken change began
    assert next_step(before, lambda slot: edition_of(told, "b", slot), told, ready={0, 1}) == End((2,))


def test_a_number_alone_only_starts_or_ends() -> None:
    told = model(instances=3)
    assert walk(editions(told, 0, 1), told) == [Start((2,))]
    assert walk(editions(told, 0, 1, 2, 3), told) == [End((3,))]


@pytest.mark.parametrize(
    "change", [{"policy": "least_loaded"}, {"busy_reply": "soon"}, {"cache": {"ttl": 5}}, {"rollout": "replace"}]
)
def test_what_concerns_the_api_alone_touches_no_instance(change: dict[str, Any]) -> None:
    assert walk(editions(model(), 0), model(**change)) == []


def test_weights_replaced_in_their_folder_are_another_edition() -> None:
    told = model()
    assert walk(editions(told, 0, weights="before"), told) == [Start((1,), spare=True), Replace(0, (0,)), End((1,))]


def test_one_device_more_leaves_the_others_alone() -> None:
    before = editions(model(devices=("cuda:0",)), 0)
    assert walk(before, model(devices=("cuda:0", "cuda:1"), instances=2)) == [Start((1,))]


def test_a_device_that_another_model_holds_is_waited_for() -> None:
    told = model(devices=("cuda:0",))
    assert walk({}, told, (Claim("old.0", "cuda:0"),)) == [Wait("cuda:0")]


def test_instances_that_change_places_end_before_one_can_start() -> None:
    before = editions(model(devices=("cuda:0", "cuda:1")), 0, 1)
    told = model(devices=("cuda:1", "cuda:0"), instances=2)
    assert walk(before, told) == [Replace(0, (0, 1)), Start((1,))]


def test_a_gpu_that_is_to_be_shared_is_made_room_on_first() -> None:
    before = editions(model(devices=("cuda:0",)), 0)
    told = model(devices=("cuda:0",), instances=2, memory_share=0.5)
    assert walk(before, told) == [Replace(0, (0,)), Start((1,))]


def test_the_way_follows_from_the_devices_unless_it_is_said() -> None:
    assert surges(model())
    assert surges(model(devices=("cpu",)))
    assert not surges(model(devices=("cuda:0",)))
    assert surges(model(devices=("cuda:0",), rollout="surge"))
