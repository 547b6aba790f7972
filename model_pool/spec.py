"""What a model is and where one instance of it lives: plain, frozen records that know no engine and touch no disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

# `sun_path` of sockaddr_un holds 108 bytes with its closing NUL (unix(7)).
SOCKET_PATH_LIMIT = 107


class SpecError(ValueError):
    """A model or an instance is described in a way that cannot work; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a model's weights were made smaller, as its `config.json` tells it.

    Attributes:
        method: `gptq`, `awq`, `fp8`, …; empty for weights that are not quantised.
        bits: bits a weight; 0 where the method implies it.
        group_size: weights that share one scale; -1 for one scale a row, 0 where unknown.
    """

    method: str = ""
    bits: int = 0
    group_size: int = 0

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> Self:
        """Read the `quantization_config` of a parsed Hugging Face `config.json`, if it has one."""
        found = config.get("quantization_config") or {}
        method = str(found.get("quant_method") or "")
        return cls(method, int(found.get("bits") or 0), int(found.get("group_size") or 0))

    @property
    def id(self) -> str:
        """A short name such as `gptq-4bit-g32`, or `none`; different for weights that answer differently."""
        if not self.method:
            return "none"
        parts = [self.method]
        if self.bits:
            parts.append(f"{self.bits}bit")
        if self.group_size:
            parts.append(f"g{self.group_size}" if self.group_size > 0 else "row")
        return "-".join(parts)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model as its engine shall serve it.

    Attributes:
        name: the name that clients use.
        engine: a key of `model_pool.engines`.
        path: local folder or hub id; some engines need none.
        revision: commit or tag of a hub id; part of what makes two answers comparable.
        quantization: the engine's own name of the method, empty to let the weights say it.
        context_length: tokens of prompt and answer together.
        max_concurrency: answers that one instance generates at once.
        max_output_tokens: upper limit of one answer, None for what the context leaves.
        memory_share: part of its device's memory that one instance may take; None for what the engine takes by itself.
        options: engine-specific settings, checked by the engine's file; may hold a key, so they are not shown.
    """

    name: str
    engine: str
    path: str = ""
    revision: str = ""
    quantization: str = ""
    context_length: int = 4096
    max_concurrency: int = 16
    max_output_tokens: int | None = None
    memory_share: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether `path` is a folder on this machine rather than a hub id."""
        return bool(self.path) and Path(self.path).is_dir()


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """One server process of a model: its slot, its device, and the folder for its socket and its record.

    Raises:
        SpecError: the socket's path is too long for a Unix socket.
    """

    model: ModelSpec
    slot: int
    device: str
    run_dir: Path

    def __post_init__(self) -> None:
        length = len(os.fsencode(self.socket))
        if length > SOCKET_PATH_LIMIT:
            msg = (
                f"the socket of instance {self.id} would be {self.socket}, {length} bytes long; a Unix socket's path "
                f"may have {SOCKET_PATH_LIMIT}: choose a shorter data folder"
            )
            raise SpecError(msg)

    @property
    def id(self) -> str:
        """`<model>.<slot>`, stable over restarts."""
        return f"{self.model.name}.{self.slot}"

    @property
    def socket(self) -> Path:
        """Where the instance's server listens."""
        return self.run_dir / f"{self.id}.sock"

    @property
    def scratch(self) -> Path:
        """A folder for the server's temporary files, emptied before each start."""
        return self.run_dir / f"{self.id}.tmp"

    @property
    def record(self) -> Path:
        """Where the instance's keeper notes which processes it runs (see `model_pool.slots`)."""
        return self.run_dir / f"{self.id}.slot.json"
