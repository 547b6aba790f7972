"""Whether a request's answer may be served again. Pure.

An answer may be repeated when the request would be answered the same way again (temperature 0, or a seed), or when
somebody who may say so is content with any good answer: the operator for a model, or the client for a request. A
temperature that is not given is the engine's default, which samples, so it is no sign of determinism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

Policy = Literal["off", "deterministic", "all"]


class Why(StrEnum):
    """The reason of a judgement."""

    OFF = "policy_off"
    LOGPROBS = "logprobs"
    SAMPLED = "sampled"
    ALL = "policy_all"
    TEMPERATURE = "temperature_zero"
    SEED = "seed"
    OPTED_IN = "opted_in"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether to look and keep, and why."""

    cacheable: bool
    why: Why


def judge(params: Mapping[str, Any], policy: Policy, *, opted_in: bool = False) -> Judgement:
    """Judge one request.

    Args:
        params: the parameters that the client gave, without defaults: what is absent or None counts as not given.
        policy: the model's. `off` is the operator's last word.
        opted_in: the client sent `x-posthouse-cache: allow`.
    """
    if policy == "off":
        return Judgement(cacheable=False, why=Why.OFF)
    if params.get("logprobs"):
        return Judgement(cacheable=False, why=Why.LOGPROBS)  # an entry keeps the text and could not show them
    why = _reason_to_keep(params, policy, opted_in=opted_in)
    return Judgement(cacheable=why is not None, why=why or Why.SAMPLED)


def _reason_to_keep(params: Mapping[str, Any], policy: Policy, *, opted_in: bool) -> Why | None:
    temperature = params.get("temperature")
    if temperature is not None and temperature == 0:
        return Why.TEMPERATURE
    if params.get("seed") is not None:
        return Why.SEED
    if policy == "all":
        return Why.ALL
    return Why.OPTED_IN if opted_in else None
