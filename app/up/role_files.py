"""What each role is told: one file with all settings, which the role takes for its configuration.

Whatever happens to the operator's own file while the stack runs, a role that is started again finds what was decided;
and a role that follows its models (see `app.services.following_models`) sees this file change, not the operator's.
"""

from __future__ import annotations

import json
import os
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.sections import ModelSettings
    from app.settings import Settings

_FOLDER = "roles"
_HOUSE = "house"


class RoleFiles:
    """Below the data folder, for its owner's eyes only; each appears whole or not at all.

    Args:
        settings: what holds for every role; its models are replaced by what is told.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder / _FOLDER
        self._settings = _plain(settings.model_dump())
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def house(self, models: Mapping[str, ModelSettings]) -> dict[str, str]:
        """Tell API, webhook worker and Flower that these models are offered; the variables that lead a role there.

        Fallbacks that are not offered (yet, or any more) are left out.
        """
        return self._write(_HOUSE, {name: _with_fallbacks(model, models) for name, model in models.items()})

    def worker(self, name: str, slot: int, model: ModelSettings) -> dict[str, str]:
        """Tell one GPU worker its model; the variables that lead it there."""
        return self._write(f"gpu.{name}.{slot}", {name: _with_fallbacks(model, {})})

    def _write(self, name: str, models: Mapping[str, ModelSettings]) -> dict[str, str]:
        told = {**self._settings, "models": {name: _plain(model.model_dump()) for name, model in models.items()}}
        file = self._folder / f"{name}.json"
        fresh = file.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(told, out)
        fresh.replace(file)
        return {"POSTHOUSE_CONFIG": str(file)}


def _with_fallbacks(model: ModelSettings, offered: Mapping[str, ModelSettings]) -> ModelSettings:
    kept = tuple(name for name in model.fallback if name in offered)
    return model if kept == model.fallback else model.model_copy(update={"fallback": kept})


def _plain(value: Any) -> Any:
    """As JSON takes it, secrets in the clear."""
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value)
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case date() | time():
            return value.isoformat()  # TOML knows them, an engine's options may hold them
    return value
