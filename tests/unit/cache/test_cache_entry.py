"""An entry comes back as it went in, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.entry import Entry, Usage, decode, encode
from cache.errors import UnreadableEntry

ENTRY = Entry("hé\n", "stop", Usage(3, 5, 1, 2), "m", "r1", 1.25, 601.5, 500)
_TEXT = st.text(st.characters(codec="utf-8"))


@given(_TEXT, _TEXT, st.floats(min_value=0, max_value=1e11), st.integers(min_value=0, max_value=10**9))
def test_there_and_back(text: str, model: str, at: float, count: int) -> None:
    entry = Entry(text, "stop", Usage(count, 0), model, "", at, at + 1, count)
    assert decode(encode(entry)) == entry


def _changed(**fields: Any) -> str:
    record = json.loads(encode(ENTRY))
    record["entry"] |= fields
    return json.dumps(record)


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.5])
def test_another_version_is_unreadable(version: Any) -> None:
    with pytest.raises(UnreadableEntry, match="version"):
        decode(json.dumps({**json.loads(encode(ENTRY)), "version": version}))


def test_no_version_is_unreadable() -> None:
    with pytest.raises(UnreadableEntry, match="version: missing"):
        decode(json.dumps({"entry": json.loads(encode(ENTRY))["entry"]}))


@pytest.mark.parametrize(
    "fields",
    [{"text": None}, {"text": 5}, {"stored_at": "1"}, {"compute_ms": 1.5}, {"usage": {}}, {"more": 1}, {"model": None}],
)
def test_a_field_of_the_wrong_kind_is_unreadable(fields: dict) -> None:
    decode(_changed())
    with pytest.raises(UnreadableEntry, match=next(iter(fields))):
        decode(_changed(**fields))


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "{}", '"x"', encode(ENTRY)[:-1]])
def test_broken_text_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableEntry):
        decode(text)


def test_the_fault_shows_no_content() -> None:
    with pytest.raises(UnreadableEntry) as caught:
        decode(_changed(text=["a secret"]))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_half_a_surrogate_pair_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        encode(Entry("\ud800", "stop", Usage(1, 1), "m", "r", 0.0, 1.0, 1))
