"""What a configuration that was read again changes, in words. Pure; values are not told, they may be secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from app.sections import ModelSettings
    from app.settings import Settings


def of_models(before: Mapping[str, ModelSettings], now: Mapping[str, ModelSettings]) -> list[str]:
    """One phrase for each model that comes, goes or changes."""
    added = [f"{name} is new" for name in now if name not in before]
    removed = [f"{name} goes" for name in before if name not in now]
    both = [name for name in now if name in before and now[name] != before[name]]
    return [*added, *removed, *(f"{name} differs ({', '.join(_fields(before[name], now[name]))})" for name in both)]


def beyond_models(before: Settings, now: Settings) -> list[str]:
    """Settings that differ and are read at a start only, such as `api.port`."""
    return [name for name in _fields(before, now) if name.partition(".")[0] != "models"]


def _fields(before: BaseModel, now: BaseModel) -> Iterator[str]:
    for name in type(before).model_fields:
        old, new = getattr(before, name), getattr(now, name)
        if old == new:
            continue
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from (f"{name}.{inner}" for inner in _fields(old, new))
        else:
            yield name
