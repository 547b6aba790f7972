"""Prompt tokens are counted by the model's own tokenizer, once, and without holding up others."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.errors import InvalidRequest
from app.sections import ModelSettings
from app.tokens.counting import TokenCounts, counter_for, unknown
from app.tokens.folder import FolderUnusable, read_folder
from app.tokens.threads import Threads
from app.tokens.tokenizer import ModelCounter
from model_pool.servers.paced import chat
from model_pool.servers.paced.vocabulary import Vocabulary
from tests.support.tiny_model import TEMPLATE, make_tiny_model

SAY = [{"role": "user", "content": "驿站"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path / "tiny")


def settings(path: Path | str) -> ModelSettings:
    return ModelSettings(path=str(path))


def test_the_template_counts_along_and_special_tokens_are_one_each(folder: Path) -> None:
    counter = ModelCounter.from_folder(folder)
    assert counter.count(SAY, {}) == 1 + 1 + 6 + 1  # begin, role, two characters of three bytes, assistant
    assert counter.count([*SAY, {"role": "assistant", "content": "x" * 100}], {}) == 9 + 101


def test_tools_and_calls_count_along(folder: Path) -> None:
    counter = ModelCounter.from_folder(folder)
    bare = counter.count(SAY, {})
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert counter.count(SAY, {"tools": tools}) == bare + len(json.dumps(tools))
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"city": "Brno"}'}}
    answer = {"role": "assistant", "content": "", "tool_calls": [call]}
    assert counter.count([*SAY, answer], {}) == bare + 1 + len("Brno")


def test_the_template_of_its_own_file_wins(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert ModelCounter.from_folder(folder).count(SAY, {}) == 6


def test_named_templates_are_chosen_by_need(folder: Path) -> None:
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "tools"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    counter = ModelCounter.from_folder(folder)
    assert [counter.count(SAY, {}), counter.count(SAY, {"tools": [{}]})] == [1, 5]


@pytest.mark.parametrize("lacking", ["tokenizer.json", "tokenizer_config.json"])
def test_a_folder_that_lacks_something_says_what(folder: Path, lacking: str) -> None:
    (folder / lacking).unlink()
    with pytest.raises(FolderUnusable, match=r"no (tokenizer\.json|chat template)"):
        read_folder(folder)


@pytest.mark.parametrize("path", ["", "no/such-model-anywhere", "../../odd path//", "tests"])
def test_without_a_tokenizer_nothing_is_counted_and_nothing_breaks(path: str) -> None:
    counts = TokenCounts(Threads())
    assert counts("m", settings(path), SAY, {}) is None
    assert unknown("m", settings(path), SAY, {}) is None


def test_a_tokenizer_that_cannot_be_read_is_none(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(FolderUnusable):
        counter_for(settings(folder))


def test_a_tokenizer_is_loaded_once_and_a_missing_one_is_looked_for_again() -> None:
    clock, loads = [0.0], []

    class Ten:
        def count(self, *_: Any) -> int:
            return 10

    def load(_: ModelSettings) -> Ten:
        loads.append(clock[0])
        if len(loads) == 1:
            raise FolderUnusable("not yet")
        return Ten()

    counts, same = TokenCounts(Threads(), load, lambda: clock[0]), settings("")
    found = []
    for clock[0] in (0.0, 1.0, 31.0, 32.0):
        found.append(counts("m", same, SAY, {}))
    assert (found, loads) == ([None, None, 10, 10], [0.0, 31.0])


def test_a_model_that_was_changed_is_counted_by_its_new_tokenizer() -> None:
    class Fixed:
        def __init__(self, told: ModelSettings) -> None:
            self._tokens = len(told.path)

        def count(self, *_: Any) -> int:
            return self._tokens

    counts, before, now = TokenCounts(Threads(), Fixed), settings("x"), settings("longer")
    assert [counts("m", told, SAY, {}) for told in (before, before, now, now)] == [1, 1, 6, 6]


def test_a_conversation_that_the_template_refuses_is_the_clients_mistake(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="no role judge"):
        TokenCounts(Threads())("m", settings(folder), [{"role": "judge", "content": ""}], {})


def test_a_template_that_fails_leaves_the_count_to_the_worker(folder: Path) -> None:
    make_tiny_model(folder, TEMPLATE + "{{ 1 / 0 }}")
    assert TokenCounts(Threads())("m", settings(folder), SAY, {}) is None


@pytest.mark.parametrize("text", ["", "one", "  two words \n", "驿站 žluť " * 50, "x" * 300, " " * 200])
def test_the_paced_engines_words_are_counted_as_it_counts_them(tmp_path: Path, text: str) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
    ids = chat.render(messages, Vocabulary(tmp_path / "w"), generation_prompt=True, continue_final=False)
    assert counter_for(ModelSettings(engine="paced")).count(messages, {}) == len(ids)


def test_those_who_ask_while_the_tokenizer_is_loaded_wait_for_it() -> None:
    """An estimate in the meantime would make the same request another one, with a generation of its own."""
    loading, go_on = threading.Event(), threading.Event()

    class Seven:
        def count(self, messages: Any, params: Any) -> int:  # noqa: ARG002 -- the signature is `Counter`
            return 7

    def load(_: ModelSettings) -> Seven:
        loading.set()
        assert go_on.wait(10)
        return Seven()

    counts, same = TokenCounts(Threads(), load), settings("x")
    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(counts, "m", same, SAY, {})]
        assert loading.wait(10)
        found += [pool.submit(counts, "m", same, SAY, {}) for _ in range(7)]
        go_on.set()
        assert [each.result(10) for each in found] == [7] * 8
