"""An API process that runs by itself follows the models in its configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.integration.api.conftest import House, build, tear_down
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

MODEL = '[models.{name}]\nengine = "paced"\n'


class ConfigMap:
    """As Kubernetes mounts one: the file is a link into a folder that another link is moved away from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.file = folder / "posthouse.toml"
        self.file.symlink_to(folder / "..data" / "posthouse.toml")

    def write(self, text: str) -> None:
        self._count += 1
        made = self._folder / f"..{self._count}"
        made.mkdir()
        (made / "posthouse.toml").write_text(text)
        (self._folder / "..fresh").symlink_to(made)
        (self._folder / "..fresh").replace(self._folder / "..data")


@pytest.fixture
def mounted(tmp_path: Path) -> ConfigMap:
    found = ConfigMap(tmp_path)
    found.write(MODEL.format(name="a"))
    return found


@pytest.fixture
def following(own_redis: RedisProcess, mounted: ConfigMap) -> Iterator[House]:
    made = build(own_redis, POSTHOUSE_CONFIG=str(mounted.file), POSTHOUSE_MODELS="{}")
    yield made
    tear_down(made)


def names(house: House) -> list[str]:
    return [model.id for model in house.sdk().models.list().data]


def test_models_come_and_go_with_the_file_and_an_unusable_one_changes_nothing(
    following: House, mounted: ConfigMap
) -> None:
    pid = following.api.worker_pid()
    assert names(following) == ["a"]
    mounted.write(MODEL.format(name="a") + MODEL.format(name="b"))
    wait_until(lambda: names(following) == ["a", "b"], what="the second is offered")

    mounted.write("[models.a\n")
    wait_until(lambda: "models_not_followed" in following.api.log(), what="a warning")
    assert names(following) == ["a", "b"]

    mounted.write(MODEL.format(name="b"))
    wait_until(lambda: names(following) == ["b"], what="the first is gone")
    with pytest.raises(openai.NotFoundError) as caught:
        following.sdk().chat.completions.create(model="a", messages=[{"role": "user", "content": "?"}])
    assert caught.value.code == "model_not_found"
    assert following.api.log().count("models_not_followed") == 1
    assert following.api.worker_pid() == pid  # nothing was restarted for it
