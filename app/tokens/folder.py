"""Reads a model's folder: where its tokenizer, its chat template and its special tokens stand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TOKENIZER = "tokenizer.json"
_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class FolderUnusable(Exception):
    """The folder is not there, or lacks what counting needs; the message says what."""


@dataclass(frozen=True)
class ModelFiles:
    """What counting needs of a model's folder.

    Attributes:
        tokenizer: path of `tokenizer.json`.
        template, tool_template: sources of the chat template; the second is for requests with tools.
        special_tokens: name to text.
    """

    tokenizer: Path
    template: str
    tool_template: str
    special_tokens: dict[str, str]


def folder_of(path: str, revision: str) -> Path:
    """The folder of a local model, or of a hub model that this host has in its cache. Nothing is fetched.

    Raises:
        FolderUnusable: the host has neither.
    """
    if Path(path).is_dir():
        return Path(path)
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 -- most hosts have a folder and need none of it
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    try:
        found = try_to_load_from_cache(path, _TOKENIZER, revision=revision or None)
    except HFValidationError:
        found = None
    if not isinstance(found, str):
        raise FolderUnusable("neither a folder nor in the hub's cache on this host")
    return Path(found).parent


def read_folder(folder: Path) -> ModelFiles:
    """Raises `FolderUnusable`."""
    if not (folder / _TOKENIZER).is_file():
        raise FolderUnusable(f"no {_TOKENIZER}")
    config = _json(folder / "tokenizer_config.json")
    template, tool_template = _templates(folder, config)
    if not template:
        raise FolderUnusable("no chat template")
    special = {**_special_tokens(_json(folder / "special_tokens_map.json")), **_special_tokens(config)}
    return ModelFiles(folder / _TOKENIZER, template, tool_template, special)


def _templates(folder: Path, config: dict[str, Any]) -> tuple[str, str]:
    """As transformers looks for them: a file of its own wins over the configuration."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        text = file.read_text(encoding="utf-8")
        return text, text
    found = _json(folder / "chat_template.json").get("chat_template") or config.get("chat_template") or ""
    if isinstance(found, list):
        named = {str(each.get("name")): str(each.get("template", "")) for each in found}
        return named.get("default", ""), named.get("tool_use", named.get("default", ""))
    return str(found), str(found)


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name in _SPECIAL:
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str):
            found[name] = text
    return found


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FolderUnusable(f"{file.name}: {type(error).__name__}") from None
    return found if isinstance(found, dict) else {}
