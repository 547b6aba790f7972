"""Request fields that both endpoints share, and their way into engine parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from app.api.checking import Budget, Metadata, Seed, Stop, Temperature, TopP, WireModel
from app.errors import InvalidRequest, PermissionDenied
from app.sections import ModelSettings
from app.services.keys import ApiKey
from model_pool import engines
from model_pool.engines import tools

ServiceTier = Literal["auto", "default", "flex", "priority"]


class CommonRequest(WireModel):
    """Fields of every generation request. Engine-specific ones are refused where the model's engine lacks them."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    stream: bool | None = None
    store: bool | None = None
    metadata: Metadata = None
    temperature: Temperature = None
    top_p: TopP = None
    stop: Stop = None
    seed: Seed = None
    service_tier: ServiceTier | None = None
    user: Annotated[str | None, Field(max_length=512)] = None
    safety_identifier: Annotated[str | None, Field(max_length=512)] = None
    prompt_cache_key: Annotated[str | None, Field(max_length=512)] = None
    deadline_seconds: Annotated[float | None, Field(gt=0, le=86_400)] = None
    top_k: Annotated[int | None, Field(ge=-1, lt=2**31)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=2)] = None
    min_tokens: Annotated[int | None, Field(ge=0, lt=2**31)] = None
    ignore_eos: bool | None = None

    @property
    def tier(self) -> str:
        wanted = self.service_tier
        return "default" if wanted is None or wanted == "auto" else wanted

    def params(self) -> dict[str, Any]:
        """Engine parameters as given; what is absent or null stays away."""
        names = ("temperature", "top_p", "stop", "seed", "top_k", "min_p", "repetition_penalty", "min_tokens")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def owner_of(request: CommonRequest, key: ApiKey) -> str:
    """Whose job it is. A client token speaks for one end user, and for nobody else.

    Raises:
        PermissionDenied: the body names another end user than the token.
    """
    named = request.user or request.safety_identifier or ""
    if key.owner and named not in {"", key.owner}:
        param = "user" if request.user else "safety_identifier"
        raise PermissionDenied(f"{param}: this client token was not made for this end user", param=param)
    return key.owner or named


def check_params(
    params: dict[str, Any], model: str, settings: ModelSettings, spelled: Mapping[str, str] | None = None
) -> None:
    """Refuse parameters that the model's engine does not have. `spelled`: how the wire spells them, where otherwise.

    Raises:
        InvalidRequest: naming the field and the model.
    """
    known = engines.get(settings.engine).request_fields
    for name in params:
        field = (spelled or {}).get(name, name)
        if name not in known:
            raise InvalidRequest(f"model {model!r} cannot take the field {field!r}", param=field)
    if tools.lacks_parser(settings.engine, settings.options, params):
        raise InvalidRequest(f"tools: model {model!r} is not set up to call tools", param="tools")


def benchmark_params(request: CommonRequest, key: ApiKey) -> dict[str, Any]:
    """`ignore_eos`, which makes answers of an exact length, is for operators' benchmarks only."""
    if not request.ignore_eos:
        return {}
    if not key.is_admin:
        raise PermissionDenied("ignore_eos needs an API key of scope `admin`", param="ignore_eos")
    return {"ignore_eos": True}


def budget_of(*asked: Budget) -> int | None:
    """The first budget that was given."""
    return next((b for b in asked if b is not None), None)
