"""Who is calling: `Authorization: Bearer KEY`, looked up before anything else is read."""

from __future__ import annotations

from typing import cast

from flask import Blueprint, g, request

from app.api.parts import parts
from app.errors import AuthenticationFailed, PermissionDenied
from app.services.keys import ApiKey

_LONGEST = 512


def caller_key() -> ApiKey:
    """The key of this request, which stands on a blueprint that requires one."""
    return cast("ApiKey", g.key)


def require_key(blueprint: Blueprint) -> None:
    """Let only callers with a key pass."""
    blueprint.before_request(_authenticate)


def require_admin(blueprint: Blueprint) -> None:
    """Let only callers with a key of scope `admin` pass."""
    blueprint.before_request(_authenticate)
    blueprint.before_request(_check_admin)


def _authenticate() -> None:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret or len(secret) > _LONGEST:
        raise AuthenticationFailed("no API key was given; send it as `Authorization: Bearer KEY`")
    g.key = parts().keys.authenticate(secret)


def _check_admin() -> None:
    if not caller_key().is_admin:
        raise PermissionDenied("this needs an API key of scope `admin`")
