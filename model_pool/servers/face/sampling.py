"""How tokens are to be chosen, as far as our own servers let a request say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model_pool.servers.face.errors import Refused

_BOUNDS = {"temperature": (0.0, 100.0), "top_p": (0.0, 1.0), "repetition_penalty": (0.01, 100.0)}
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Sampling:
    """Temperature 0 is greedy; `top_k` 0 considers all tokens; no seed means another answer each time."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    seed: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def from_body(body: Mapping[str, Any]) -> Sampling:
    """Raises `Refused` (400), naming the field, where a value is of the wrong type or out of its range."""
    top_k = _whole(body, "top_k", -1, 2**31 - 1)
    return Sampling(
        **{field: _number(body, field, *bounds) for field, bounds in _BOUNDS.items() if body.get(field) is not None},
        top_k=max(0, top_k or 0),
        seed=_whole(body, "seed", -_LARGEST_SEED, _LARGEST_SEED),
    )


def _number(body: Mapping[str, Any], field: str, least: float, most: float) -> float:
    value = body[field]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise Refused(400, f"{field} must be from {least:g} to {most:g}, got {value}.", param=field)
    return float(value)


def _whole(body: Mapping[str, Any], field: str, least: int, most: int) -> int | None:
    value = body.get(field)
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise Refused(400, f"{field} must be a whole number from {least} to {most}, got {value}.", param=field)
    return value
