"""The documents keep up with the code: what they name exists, and no setting, metric or Redis key is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from app.sections import ModelSettings
from app.settings import Settings

ROOT = Path(__file__).parents[3]
READMES = ("README.md", "README.zh-CN.md")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"\bph:[a-z_]+(?::[a-z_]+)*")
_ROW = re.compile(r"^\| `([^`|]+)` \| (.*?) \|", re.MULTILINE)


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def prose(file: Path) -> str:
    """The text without its fenced code, in which brackets mean other things."""
    return _FENCE.sub("", file.read_text())


def anchors(file: Path) -> set[str]:
    """The anchors that GitHub gives to a file's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(file), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def relative_links() -> Iterator[tuple[Path, str]]:
    for file in documents():
        for target in _LINK.findall(prose(file)):
            if "://" not in target:
                yield file, target


def test_there_are_documents_with_links() -> None:
    assert len(documents()) > len(READMES)
    assert any(True for _ in relative_links())


@pytest.mark.parametrize(("file", "target"), [pytest.param(f, t, id=f"{f.name}-{t}") for f, t in relative_links()])
def test_every_relative_link_leads_somewhere(file: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    there = (file.parent / path).resolve() if path else file
    assert there.exists()
    assert there.is_relative_to(ROOT)
    if anchor:
        assert anchor in anchors(there)


def test_both_readmes_lead_to_each_other() -> None:
    assert "](README.zh-CN.md)" in (ROOT / "README.md").read_text()
    assert "](README.md)" in (ROOT / "README.zh-CN.md").read_text()


def test_both_readmes_show_the_same_commands_and_code() -> None:
    english, chinese = (code_of(ROOT / name) for name in READMES)
    assert english
    assert chinese == english


def code_of(file: Path) -> list[str]:
    """The lines of all fenced code, without comments and blank lines."""
    lines = [line for block in _FENCE.finditer(file.read_text()) for line in block[0].splitlines()[1:-1]]
    bare = (re.sub(r"(^|\s+)#.*", "", line).rstrip() for line in lines)
    return [line for line in bare if line]


@pytest.mark.parametrize("name", READMES)
def test_every_make_target_that_a_readme_names_exists(name: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", (ROOT / name).read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named >= {"demo", "test"}
    assert named <= targets


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its default; sections are walked through, the table of models is not a section."""
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            yield from fields(type(default), f"{prefix}{name}.")
        elif prefix + name != "models":
            yield prefix + name, default


def shown(default: Any) -> str:
    """A default as the tables of docs/operations.md show it."""
    value = default.get_secret_value() if isinstance(default, SecretStr) else default
    if value is None or value in ((), {}):
        return "none"
    if value == "":
        return "empty"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def test_operations_describe_every_setting_with_its_default() -> None:
    expected = {name: shown(default) for name, default in fields(Settings)}
    expected |= {name: shown(default) for name, default in fields(ModelSettings, "models.NAME.")}
    told = dict(_ROW.findall((ROOT / "docs" / "operations.md").read_text()))
    assert {name: told.get(name) for name in expected} == expected


def test_operations_describe_no_setting_that_is_gone() -> None:
    known = {name for name, _ in (*fields(Settings), *fields(ModelSettings, "models.NAME."))}
    sections = {name.split(".")[0] for name in known if "." in name}
    told = {name for name, _ in _ROW.findall((ROOT / "docs" / "operations.md").read_text())}
    assert {name for name in told if name.split(".")[0] in sections and "." in name} <= known


def test_architecture_describes_every_kind_of_redis_key() -> None:
    described = (ROOT / "docs" / "architecture.md").read_text()
    used = {key for file in sources() for key in _KEY.findall(file.read_text())}
    assert {"ph:job", "ph:outbox", "ph:ring"} <= used
    assert {key for key in used if f"`{key}" not in described} == set()


def sources() -> list[Path]:
    rooms = ("app", "cache", "model_pool", "workers")
    return [file for room in rooms for kind in ("*.lua", "*.py") for file in (ROOT / room).rglob(kind)]


def test_operations_list_every_metric() -> None:
    described = (ROOT / "docs" / "operations.md").read_text()
    named = {
        name
        for file in sources()
        if "prometheus_client" in (text := file.read_text())
        for name in re.findall(r'"(posthouse_[a-z_]+)"', text)
    }
    assert named
    assert {name for name in named if f"`{name}`" not in described and f"`{name}_total`" not in described} == set()


def test_every_decision_stands_in_the_list_once_and_in_order() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^\d+\. \[.+\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert listed == sorted(file.name for file in folder.glob("0*.md"))
