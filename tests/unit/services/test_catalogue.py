"""The models that are offered are swapped as one, and a process follows the file that names them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from app.errors import ModelNotFound
from app.sections import ModelSettings
from app.services.catalogue import Catalogue
from app.services.following_models import ModelWatch
from app.services.models import Models
from app.settings import ConfigurationError


def paced(**more: object) -> ModelSettings:
    return ModelSettings(engine="paced", **more)  # type: ignore[arg-type]


def test_whoever_holds_the_catalogue_sees_a_swap() -> None:
    catalogue = Catalogue({"a": paced()})
    models = Models(catalogue, lambda _: {}, now=0)
    assert catalogue.swap({"b": paced(revision="r")}) == ["a", "b"]
    assert models.names() == list(catalogue) == ["b"]
    assert models.existing("b").revision == "r"
    with pytest.raises(ModelNotFound):
        models.existing("a")


def test_somebody_who_goes_through_it_sees_one_moment() -> None:
    catalogue = Catalogue({"a": paced(), "b": paced()})
    walk = iter(catalogue)
    next(walk)
    catalogue.swap({})
    assert list(walk) == ["b"]


def test_a_model_that_stays_as_it_was_keeps_its_object() -> None:
    catalogue = Catalogue({"a": paced(), "b": paced()})
    before = catalogue["a"], catalogue["b"]
    assert catalogue.swap({"a": paced(), "b": paced(context_length=99)}) == ["b"]
    assert (catalogue["a"] is before[0], catalogue["b"] is before[1]) == (True, False)


def test_weights_that_were_replaced_in_their_folder_are_a_change() -> None:
    weights = ["one"]
    catalogue = Catalogue({"a": paced()}, fingerprint=lambda *_: weights[0])
    before = catalogue["a"]
    weights[0] = "two"
    assert catalogue.swap({"a": paced()}) == ["a"]
    assert catalogue["a"] is not before
    assert catalogue.entry("a") == (before, "two")


class File:
    """A configuration file with a stamp; reading one that is None fails."""

    def __init__(self, *names: str) -> None:
        self.stamp = 0
        self.reads = 0
        self.names: tuple[str, ...] | None = names

    def write(self, *names: str, good: bool = True) -> None:
        self.stamp, self.names = self.stamp + 1, names if good else None

    def load(self) -> Mapping[str, ModelSettings]:
        self.reads += 1
        if self.names is None:
            raise ConfigurationError("models.x: nonsense")
        return {name: paced() for name in self.names}


@pytest.fixture
def file() -> File:
    return File("a")


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue({"a": paced()})


@pytest.fixture
def watch(file: File, catalogue: Catalogue) -> ModelWatch:
    return ModelWatch(catalogue, stamp=lambda: file.stamp, load=file.load)


def look(watch: ModelWatch, times: int) -> None:
    for _ in range(times):
        watch.look()


def test_a_changed_file_is_followed_once_it_rests(watch: ModelWatch, file: File, catalogue: Catalogue) -> None:
    look(watch, 3)
    assert file.reads == 0
    file.write()
    watch.look()
    file.write("a", "b")  # the editor was not done
    watch.look()
    assert (file.reads, list(catalogue)) == (0, ["a"])
    watch.look()
    assert list(catalogue) == ["a", "b"]
    look(watch, 5)
    assert file.reads == 1


@pytest.mark.parametrize("good", [False, True], ids=["nonsense", "no model"])
def test_an_unusable_file_is_warned_of_once_and_changes_nothing(
    watch: ModelWatch, file: File, catalogue: Catalogue, capsys: pytest.CaptureFixture[str], good: bool
) -> None:
    file.write(good=good)
    look(watch, 6)
    assert (file.reads, list(catalogue)) == (1, ["a"])
    assert capsys.readouterr().out.count("models_not_followed") == 1
    file.write("b")
    look(watch, 2)
    assert list(catalogue) == ["b"]
