"""Checks of options and folders that several engines share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_pool.engines.base import EngineConfigError, number_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model_pool.spec import InstanceSpec, ModelSpec


def require_package(engine: str, module: str, package: str) -> None:
    """Raises `EngineConfigError` unless the module can be imported; nothing is imported here."""
    if importlib.util.find_spec(module) is None:
        msg = f"engine {engine} needs the package {package}, which is not installed"
        raise EngineConfigError(msg)


def require_option(model: ModelSpec, key: str, holds: bool, what: str) -> None:
    """Raises `EngineConfigError`, naming the option and `what` it must be, unless `holds`."""
    if not holds:
        msg = f"models.{model.name}.options.{key} is {model.options[key]!r}; it must be {what}"
        raise EngineConfigError(msg)


def whole_option(model: ModelSpec, key: str, default: int, *, least: int, most: int) -> int:
    """The option `key` as a whole number within its bounds.

    Raises:
        EngineConfigError: it is none, or out of bounds.
    """
    value = number_option(model, key, default, least=least, most=most)
    require_option(model, key, value == int(value), "a whole number")
    return int(value)


def extra_arguments(model: ModelSpec) -> list[str]:
    """The option `extra_args`: further words for the engine's command line.

    Raises:
        EngineConfigError: it is no list of words.
    """
    extra: Any = model.options.get("extra_args", [])
    words = isinstance(extra, list | tuple) and all(isinstance(word, str) for word in extra)
    require_option(model, "extra_args", words, 'a list of words, such as ["--flag", "value"]')
    return list(extra)


def require_device(spec: InstanceSpec, kinds: Sequence[str]) -> None:
    """Raises `EngineConfigError` unless the device is `cpu` or `cuda:N`, as far as `kinds` (`cpu`, `cuda`) has them."""
    kind, _, number = spec.device.partition(":")
    if kind not in kinds or (kind == "cpu") != (number == "") or (number and not number.isdecimal()):
        known = " or ".join("cuda:N" if kind == "cuda" else kind for kind in kinds)
        msg = (
            f"models.{spec.model.name}.devices: {spec.device!r} is no device of engine {spec.model.engine}; use {known}"
        )
        raise EngineConfigError(msg)


def require_files(model: ModelSpec, *names: str) -> Path:
    """The model's folder, if it has all these files.

    Raises:
        EngineConfigError: the path is no folder, or lacks one of them.
    """
    folder = Path(model.path)
    if not model.is_local:
        msg = f"models.{model.name}.path: there is no folder {model.path!r}; engine {model.engine} needs one"
        raise EngineConfigError(msg)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        msg = f"models.{model.name}.path: {folder} has no {', no '.join(missing)}"
        raise EngineConfigError(msg)
    return folder


def visible_device(spec: InstanceSpec) -> dict[str, str]:
    """The environment that pins a server to its GPU; a server on the CPU sees none."""
    return {"CUDA_VISIBLE_DEVICES": spec.device.removeprefix("cuda:") if spec.device != "cpu" else ""}
