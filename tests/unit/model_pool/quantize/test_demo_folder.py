"""The demo model's folder is there as a whole or not at all, and is built once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from model_pool.quantize.checkpoint import REQUIRED_FILES
from model_pool.quantize.demo import NEEDED_BYTES, ensure_demo_model
from model_pool.quantize.errors import DiskSpaceError, FolderError, QualityError
from model_pool.quantize.recipe import Recipe

Report = Callable[[str, float], None]


def quiet(_step: str, _done: float) -> None:
    """A display for those who look at the folder only."""


def fake_build(work: Path, _recipe: Recipe, report: Report) -> Path:
    report("fake", 0.5)
    out = work / "out"
    out.mkdir()
    for name in REQUIRED_FILES:
        (out / name).write_text(name)
    return out


def never(_work: Path, _recipe: Recipe, _report: Report) -> Path:
    pytest.fail("nothing should be built")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models" / "demo"


def entries(folder: Path) -> list[str]:
    """Names beside the folder, hidden ones too."""
    return sorted(path.name for path in folder.parent.iterdir())


def test_the_first_call_builds_and_later_ones_only_look(folder: Path):
    steps: list[str] = []

    assert ensure_demo_model(folder, lambda step, _done: steps.append(step), builder=fake_build) == folder
    assert ensure_demo_model(folder, lambda *_: pytest.fail("no step to report"), builder=never) == folder
    assert steps == ["fake"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(REQUIRED_FILES)
    assert entries(folder) == ["demo", "demo.lock"]


def test_the_folder_does_not_exist_before_it_is_finished(folder: Path):
    def build(work: Path, recipe: Recipe, report: Report) -> Path:
        out = fake_build(work, recipe, report)
        assert not folder.exists()
        assert work.stat().st_dev == folder.parent.stat().st_dev
        return out

    ensure_demo_model(folder, quiet, builder=build)


@pytest.mark.parametrize("error", [QualityError("worse"), KeyboardInterrupt(), RuntimeError("a library's")])
def test_a_broken_build_leaves_nothing_but_the_lock_file(folder: Path, error: BaseException):
    def build(work: Path, recipe: Recipe, report: Report) -> Path:
        fake_build(work, recipe, report)
        raise error

    with pytest.raises(type(error)):
        ensure_demo_model(folder, quiet, builder=build)
    assert entries(folder) == ["demo.lock"]


def test_what_a_killed_build_left_goes_with_the_next_one(folder: Path):
    left = folder.parent / ".demo.k1ll3d"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_text("half")

    ensure_demo_model(folder, quiet, builder=fake_build)
    assert entries(folder) == ["demo", "demo.lock"]


def test_two_at_once_build_once_and_both_get_it(folder: Path):
    builds: list[Path] = []
    started, waiting, results = threading.Event(), threading.Event(), []

    def slow_build(work: Path, recipe: Recipe, report: Report) -> Path:
        builds.append(work)
        started.set()
        assert waiting.wait(10)
        return fake_build(work, recipe, report)

    def second(step: str, _done: float) -> None:
        assert step == "Wait for another build"
        waiting.set()

    def ask(report: Report) -> None:
        results.append(ensure_demo_model(folder, report, builder=slow_build))

    threads = [threading.Thread(target=ask, args=(quiet,)), threading.Thread(target=ask, args=(second,))]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert results == [folder, folder]
    assert len(builds) == 1


def test_whoever_waits_too_long_for_another_build_is_told_about_the_lock(folder: Path):
    def build(work: Path, recipe: Recipe, report: Report) -> Path:
        with pytest.raises(FolderError, match=r"another process holds .*demo\.lock"):
            ensure_demo_model(folder, quiet, builder=never, wait=0)
        return fake_build(work, recipe, report)

    assert ensure_demo_model(folder, quiet, builder=build) == folder


def test_a_full_disk_is_told_before_the_work_begins(folder: Path):
    with pytest.raises(DiskSpaceError, match=r"599 MB free, but the build needs 600 MB"):
        ensure_demo_model(folder, quiet, builder=never, free=lambda _path: NEEDED_BYTES - 1)
    assert not folder.exists()


@pytest.mark.parametrize("name", REQUIRED_FILES)
def test_a_folder_that_lacks_a_file_is_refused_by_name_and_left_alone(folder: Path, name: str):
    ensure_demo_model(folder, quiet, builder=fake_build)
    (folder / name).unlink()

    with pytest.raises(FolderError, match=name):
        ensure_demo_model(folder, quiet, builder=never)
    assert len(list(folder.iterdir())) == len(REQUIRED_FILES) - 1
