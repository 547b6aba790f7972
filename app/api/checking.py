"""Request models: a written allow-list of fields, strict types, and messages that name the field and the cure."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from app.errors import InvalidRequest

_MOST_STOPS = 4
_LONGEST_STOP = 1024
_MOST_PAIRS = 16
_LONGEST_KEY, _LONGEST_VALUE = 64, 512


class WireModel(BaseModel):
    """A JSON object of the wire. `"10"` is no integer, `true` is no number, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


M = TypeVar("M", bound=WireModel)


def parse(model: type[M], body: dict[str, Any]) -> M:
    """Check a body against a request model.

    Raises:
        InvalidRequest: naming the first field at fault.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        # The values are the caller's content: they go neither into the message nor into the log.
        first = error.errors(include_url=False, include_input=False)[0]
    param = path_of(first["loc"])
    raise InvalidRequest(_message(first["type"], first["msg"], param), param=param)


def path_of(location: tuple[int | str, ...]) -> str:
    """A pydantic location in the wire's spelling: `messages[0].content`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _message(kind: str, said: str, param: str) -> str:
    match kind:
        case "extra_forbidden":
            return f"the field {param!r} is not known here; remove it"
        case "missing":
            return f"the field {param!r} is missing"
        case "value_error":
            return f"{param}: {said.removeprefix('Value error, ')}"
        case _:
            return f"{param}: {said[:1].lower()}{said[1:]}"


def _check_stop(value: Any) -> Any:
    stops = [value] if isinstance(value, str) else value
    if stops is None:
        return None
    if not isinstance(stops, list) or not all(isinstance(s, str) for s in stops):
        raise ValueError("must be a string or a list of strings")
    if len(stops) > _MOST_STOPS:
        raise ValueError(f"has {len(stops)} strings; at most {_MOST_STOPS} are possible")
    if not all(0 < len(s) <= _LONGEST_STOP for s in stops):
        raise ValueError(f"each string must have 1 to {_LONGEST_STOP} characters")
    return stops or None


def _check_metadata(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError("must be an object whose values are strings")
    if len(value) > _MOST_PAIRS:
        raise ValueError(f"has {len(value)} pairs; at most {_MOST_PAIRS} are possible")
    if any(len(k) > _LONGEST_KEY or len(v) > _LONGEST_VALUE for k, v in value.items()):
        raise ValueError(f"keys have at most {_LONGEST_KEY} characters, values at most {_LONGEST_VALUE}")
    return value


_STOP = {"type": "string", "minLength": 1, "maxLength": _LONGEST_STOP}
_STOPS = {"type": "array", "items": _STOP, "maxItems": _MOST_STOPS}

Stop = Annotated[
    list[str] | None,
    BeforeValidator(_check_stop),
    WithJsonSchema({"anyOf": [_STOP, _STOPS, {"type": "null"}]}),
]
"""Stop strings: one, or up to four; none empty. An empty list means none."""

_LABELS = {
    "type": "object",
    "maxProperties": _MOST_PAIRS,
    "propertyNames": {"maxLength": _LONGEST_KEY},
    "additionalProperties": {"type": "string", "maxLength": _LONGEST_VALUE},
}

Metadata = Annotated[
    dict[str, str] | None,
    BeforeValidator(_check_metadata),
    WithJsonSchema({"anyOf": [_LABELS, {"type": "null"}]}),
]
"""The caller's own labels: at most 16 pairs, 64 and 512 characters."""

Temperature = Annotated[float | None, Field(ge=0, le=2)]
TopP = Annotated[float | None, Field(gt=0, le=1)]
Penalty = Annotated[float | None, Field(ge=-2, le=2)]
Seed = Annotated[int | None, Field(ge=-(2**63), lt=2**63)]
# However large it is: what fits is decided against the model's context, by an error that names it.
Budget = Annotated[int | None, Field(ge=1)]
TopLogprobs = Annotated[int | None, Field(ge=0, le=20)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Label = Annotated[str | None, Field(max_length=512)]
