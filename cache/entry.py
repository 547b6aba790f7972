"""A kept answer, and its strict JSON form: `{"version": 1, "entry": {…}}`.

Versions mix in a fleet that is being upgraded: an entry of another schema version is unreadable, that is, a miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from cache.errors import UnreadableEntry

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the run that made the answer."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished run, as whoever ran it hands it over.

    Attributes:
        finish_reason: the engine's; only `stop` is kept.
        model, revision: what really answered, which under a fallback is not what was asked.
        compute_ms: from the start of the run to its end.
        continued: another worker took the answer up in the middle.
    """

    text: str
    finish_reason: str
    usage: Usage
    model: str
    revision: str
    compute_ms: int
    continued: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer in the cache.

    Attributes:
        stored_at, fresh_until: Unix seconds, by the clock of the host that kept it.
        compute_ms: what the answer took, for early refresh.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    text: str
    finish_reason: str
    usage: Usage
    model: str
    revision: str
    stored_at: float
    fresh_until: float
    compute_ms: int


@dataclass(frozen=True, slots=True)
class _Record:
    """What is stored: the entry and the version of its fields, which must be there."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    version: Literal[1]
    entry: Entry


_RECORDS: TypeAdapter[_Record] = TypeAdapter(_Record)


def encode(entry: Entry) -> str:
    """Compact JSON.

    Raises:
        ValueError: the text holds half a surrogate pair, which has no form in UTF-8.
    """
    return _RECORDS.dump_json(_Record(1, entry)).decode()


def decode(text: str) -> Entry:
    """The entry of a JSON text.

    Raises:
        UnreadableEntry: not JSON, another version, or a field that is missing, unknown or of the wrong type. The
            message names the faults and shows nothing of the content.
    """
    try:
        return _RECORDS.validate_json(text).entry
    except ValidationError as error:
        faults = ", ".join(f"{'.'.join(map(str, e['loc'])) or 'text'}: {e['type']}" for e in error.errors())
        raise UnreadableEntry(faults) from None
