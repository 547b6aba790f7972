"""Reading a request's JSON: bounded in size and time, and strict about what JSON and text are."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import gevent
from flask import request
from gevent import monkey
from gunicorn.http.errors import NoMoreData, ParseException
from werkzeug.exceptions import ClientDisconnected

from app.api.caller import CallerGone
from app.api.parts import parts
from app.errors import BodyTooLarge, InvalidRequest, RequestTimeout, UnsupportedMediaType

_CHUNK = 64 * 1024
_DEEPEST = 64
_LONGEST_NAME = 64


def json_object() -> dict[str, Any]:
    """The body, which must be one JSON object.

    Raises:
        UnsupportedMediaType, BodyTooLarge, RequestTimeout, InvalidRequest: it is something else.
    """
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("send JSON with Content-Type: application/json")
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("send the body as it is, without a Content-Encoding")
    return parse_object(_body(parts().settings.api.body_limit))


def _body(limit: int) -> bytes:
    if request.content_length is not None and request.content_length > limit:
        raise _too_large(limit)
    with _time_limit(parts().settings.api.slow_sender_seconds):
        return _read(limit)


def _read(limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := request.stream.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    except ParseException:
        raise InvalidRequest("the body's chunks are no valid HTTP") from None
    except (ClientDisconnected, NoMoreData, ConnectionError):
        raise CallerGone from None
    if size < (request.content_length or 0):
        raise CallerGone  # what came may be whole to a parser all the same
    return b"".join(chunks)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit} bytes")


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """A trickled body holds its connection no longer than this. Only greenlets can be interrupted in a read."""
    if not monkey.is_module_patched("socket"):
        yield
        return
    late = RequestTimeout(f"the body did not arrive within {seconds:g} s")
    with gevent.Timeout(seconds, late):
        yield


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse one JSON object.

    Raises:
        InvalidRequest: not UTF-8, not JSON, not an object, a name twice in one object, NaN or Infinity, a number too
            large, a lone surrogate or NUL in a text, or nested too deeply.
    """
    try:
        found = json.loads(
            body.decode(), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_each_once
        )
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not valid UTF-8") from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"the body is not valid JSON: {_reason(error)}") from None
    if not isinstance(found, dict):
        raise InvalidRequest("the body must be a JSON object")
    _check_texts(found, _DEEPEST, escapes=b"\\u" in body)
    return found


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return str(error)[:100]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Parsers differ on which of two equal names counts (RFC 8259, 4), so none is chosen here."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        name = next(name for name, count in counts.items() if count > 1)[:_LONGEST_NAME]
        # Not looked at yet: it may hold half of a surrogate pair, which no answer can.
        shown = name.encode(errors="backslashreplace").decode()
        raise InvalidRequest(f"the field {shown!r} stands twice in one object", param=shown)
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _check_texts(value: Any, depth: int, *, escapes: bool) -> None:
    """Lone surrogates and NUL can only come from escapes; without any, only the depth is looked at."""
    if depth == 0:
        raise InvalidRequest("the body is nested too deeply")
    if isinstance(value, str):
        if escapes:
            _check_text(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_texts(key, depth, escapes=escapes)
            _check_texts(inner, depth - 1, escapes=escapes)
    elif isinstance(value, list):
        for inner in value:
            _check_texts(inner, depth - 1, escapes=escapes)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise InvalidRequest("a text holds a NUL character")
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidRequest("a text holds half of a surrogate pair, which is no character")
