"""Who is calling: `Authorization: Bearer KEY`, looked up before anything else is read.

Where a blueprint says so a client token (`ek_…`) does as well; an EventSource, which cannot send a header, may pass one
as `?client_token=` to read a stream. An API key is never taken from there, because addresses end up in logs of others.
"""

from __future__ import annotations

from typing import cast

from flask import Blueprint, g, request

from app.api.parts import parts
from app.errors import AuthenticationFailed, PermissionDenied
from app.services import client_tokens
from app.services.keys import ApiKey

_LONGEST = 512
_STREAMS = frozenset({"responses.read"})


def caller_key() -> ApiKey:
    """The key of this request, which stands on a blueprint that requires one."""
    return cast("ApiKey", g.key)


def require_key(blueprint: Blueprint, *, browsers: bool = False) -> None:
    """Let only callers with a key pass, and with `browsers` those with a client token too."""
    blueprint.before_request(_authenticate)
    if not browsers:
        blueprint.before_request(_refuse_client_tokens)


def require_admin(blueprint: Blueprint) -> None:
    """Let only callers with a key of scope `admin` pass."""
    require_key(blueprint)
    blueprint.before_request(_check_admin)


def _authenticate() -> None:
    secret = _stream_token() or _bearer()
    if not secret or len(secret) > _LONGEST:
        raise AuthenticationFailed("no API key was given; send it as `Authorization: Bearer KEY`")
    known = parts().client_tokens if secret.startswith(client_tokens.PREFIX) else parts().keys
    g.key = known.authenticate(secret)


def _bearer() -> str:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _stream_token() -> str:
    """The token in the address of a stream that is read without an Authorization header."""
    taken = request.method == "GET" and request.endpoint in _STREAMS and wants_stream()
    if not taken or "Authorization" in request.headers:
        return ""
    token = request.args.get("client_token", "")
    return token if token.startswith(client_tokens.PREFIX) else ""


def wants_stream() -> bool:
    """Whether a GET asks for the job's events instead of the job."""
    return request.args.get("stream") in {"true", "1"}


def _refuse_client_tokens() -> None:
    if caller_key().owner:
        raise PermissionDenied("a client token may only make and follow jobs; this needs an API key")


def _check_admin() -> None:
    if not caller_key().is_admin:
        raise PermissionDenied("this needs an API key of scope `admin`")
