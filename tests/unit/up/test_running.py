"""A running `posthouse up` is found by its data folder, and nobody else is signalled in its place."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.commands.reload import reload
from app.up import running, session

GOOD = '[models.m]\nengine = "paced"\n'


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTHOUSE_CONFIG", "")  # the command sets it; it must be as before afterwards
    file = tmp_path / "posthouse.toml"
    file.write_text(GOOD)
    return file


@pytest.fixture
def signals() -> Any:
    """Signals that this process gets; it stands for the supervisor."""
    found: list[int] = []
    before = signal.signal(session.RELOAD_SIGNAL, lambda number, _: found.append(number))
    yield found
    signal.signal(session.RELOAD_SIGNAL, before)


def test_the_process_that_noted_itself_is_found(tmp_path: Path) -> None:
    assert running.find(tmp_path) is None
    running.note(tmp_path, tmp_path / "posthouse.toml", "paced")
    found = running.find(tmp_path)
    assert found is not None
    assert (found.pid, found.config, found.engine) == (os.getpid(), str(tmp_path / "posthouse.toml"), "paced")


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}, {"pid": 2**22 + 1}, {"more": 1}])
def test_another_process_with_its_number_is_not(tmp_path: Path, change: dict[str, Any]) -> None:
    running.note(tmp_path, tmp_path, "")
    found = running.find(tmp_path)
    assert found is not None
    (tmp_path / "up.json").write_text(json.dumps(dataclasses.asdict(found) | change))
    assert running.find(tmp_path) is None


def test_a_good_file_is_told_of(config: Path, signals: list[int]) -> None:
    running.note(config.parent, config, "")
    done = CliRunner().invoke(reload, ["--data", str(config.parent)])
    assert (done.exit_code, signals) == (0, [session.RELOAD_SIGNAL]), done.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[models.m\n", "cannot be read"),
        (GOOD + 'fallback = ["nobody"]\n', "nobody"),
        (GOOD.replace("paced", "pacd"), "engine 'pacd' is unknown"),
        (GOOD + "options = { nonsense = 1 }\n", "nonsense"),
    ],
)
def test_an_unusable_file_is_an_error_and_nobody_is_told(
    config: Path, signals: list[int], text: str, words: str
) -> None:
    running.note(config.parent, config, "")
    config.write_text(text)
    done = CliRunner().invoke(reload, ["--data", str(config.parent)])
    assert (done.exit_code, signals) == (1, [])
    assert words in done.output


def test_the_engine_of_the_command_line_is_the_one_that_counts(config: Path, signals: list[int]) -> None:
    running.note(config.parent, config, "paced")
    config.write_text(GOOD.replace("paced", "pacd"))
    assert CliRunner().invoke(reload, ["--data", str(config.parent)]).exit_code == 0
    assert len(signals) == 1


def test_without_a_running_stack_it_says_so(config: Path) -> None:
    done = CliRunner().invoke(reload, ["--data", str(config.parent)])
    assert done.exit_code == 1
    assert "no `posthouse up` runs with the data folder" in done.output
