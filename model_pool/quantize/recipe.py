"""How the demo model is made; whatever changes the result stands here, so that its digest names the result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from model_pool.quantize.texts import Chat, calibration_chats, held_out_texts

if TYPE_CHECKING:
    from pathlib import Path

_DIGEST_CHARS = 12


@dataclass(frozen=True, slots=True)
class GptqSettings:
    """What GPTQModel is asked for.

    Attributes:
        bits, group_size: each group of so many weights in a row shares one scale.
        batch_size: calibration rows in one forward pass.
    """

    bits: int = 4
    group_size: int = 32
    batch_size: int = 8


@dataclass(frozen=True, slots=True)
class CalibrationLimits:
    """Which calibration rows count, and how many must.

    Attributes:
        min_tokens: a shorter row is not usable.
        max_tokens: a longer row is cut.
        min_rows: with fewer usable rows nothing is quantised.
    """

    min_tokens: int = 16
    max_tokens: int = 256
    min_rows: int = 24


@dataclass(frozen=True, slots=True)
class QualityBounds:
    """What the result must keep of the unquantised model.

    Attributes:
        perplexity_ratio: most that perplexity on the held-out texts may grow, as a factor.
        answer_tokens: length of the greedy answers that are looked at.
    """

    perplexity_ratio: float = 1.25
    answer_tokens: int = 16


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that the quantised folder depends on besides the source file and the libraries."""

    version: int = 1
    gptq: GptqSettings = field(default_factory=GptqSettings)
    calibration: CalibrationLimits = field(default_factory=CalibrationLimits)
    quality: QualityBounds = field(default_factory=QualityBounds)
    chats: tuple[Chat, ...] = field(default_factory=calibration_chats)
    held_out: tuple[str, ...] = field(default_factory=held_out_texts)

    def digest(self, source: Path) -> str:
        """Twelve hex digits that change with the recipe or with the source file's content."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode())
        with source.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:_DIGEST_CHARS]
