"""Client tokens: what a browser gets instead of an API key. 256 random bits, kept as SHA-256, for an hour at most.

`ph:client_token:<sha256>` holds the id of the API key that made it, its models and its end user (JSON), with a TTL. A
token is no more than its key is at that moment: revoking the key ends its tokens within the 5 s for which a process
remembers them.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import redis

from app.errors import AuthenticationFailed
from app.redis_errors import translated
from app.services.api_key import ApiKey
from app.services.keys import KeyStore, digest_of
from app.services.remembered import Remembered

PREFIX = "ek_"
LONGEST_SECONDS = 3600
_REMEMBERED_SECONDS = 5.0
_REMEMBERED = 10_000
_UNKNOWN = "this client token is not known or has expired; ask your server for a new one"


@dataclass(frozen=True)
class ClientToken:
    """A token as its maker sees it, this one time.

    Attributes:
        secret: what the browser shows.
        expires_in: seconds.
        models: the only models that it may use; empty: those of its key.
        user: the end user whose jobs it may see; empty: it sees those that it made itself.
    """

    id: str
    secret: str
    expires_in: int
    models: tuple[str, ...]
    user: str


class ClientTokens:
    """Makes and recognises client tokens. Redis away raises `QueueUnavailable`.

    Args:
        client: jobs role.
        keys: where the keys behind the tokens are looked up.
        monotonic: seconds.
    """

    def __init__(self, client: redis.Redis, keys: KeyStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._keys = keys
        self._remembered: Remembered[ApiKey] = Remembered(_REMEMBERED_SECONDS, _REMEMBERED, monotonic)

    def create(self, key: ApiKey, *, models: tuple[str, ...], user: str, expires_in: int) -> ClientToken:
        """A token for one end user of a key's owner.

        Args:
            key: whose rights and limits it shares.
            models: see `ClientToken`.
            user: see `ClientToken`.
            expires_in: seconds, 1 to 3600.
        """
        token = ClientToken(
            "token_" + secrets.token_hex(8), PREFIX + secrets.token_urlsafe(32), expires_in, models, user
        )
        record = {"key": key.id, "models": models, "owner": user or _nobody(token.id)}
        with translated():
            self._client.set(_record(digest_of(token.secret)), json.dumps(record), ex=expires_in)
        return token

    def authenticate(self, secret: str) -> ApiKey:
        """The key that stands behind a token, narrowed to what the token may do.

        Raises:
            AuthenticationFailed: no such token, it has expired, or its key was revoked.
        """
        digest = digest_of(secret)
        found = self._remembered.get(digest) or self._looked_up(digest)
        if found is None:
            raise AuthenticationFailed(_UNKNOWN)
        return found

    def _looked_up(self, digest: str) -> ApiKey | None:
        with translated(), self._client.pipeline() as pipeline:
            pipeline.get(_record(digest))
            pipeline.pttl(_record(digest))
            text, left = pipeline.execute()
        if text is None:
            return None
        record = json.loads(text)
        key = self._keys.by_id(record["key"])
        found = None if key is None else _narrowed(key, record)
        if found is not None:
            self._remembered.put(digest, found, at_most=left / 1000)
        return found


def _narrowed(key: ApiKey, record: dict[str, Any]) -> ApiKey | None:
    """The key as the token may use it; None when nothing is left of the token's models."""
    models = tuple(m for m in record["models"] if key.may_use(m)) if record["models"] else key.models
    if record["models"] and not models:
        return None
    return replace(key, scope="use", owner=record["owner"], models=models)


def _nobody(token_id: str) -> str:
    """Whose jobs those of a token without a user are: nobody else's. No request can name it, as none may hold a NUL."""
    return f"\0{token_id}"


def _record(digest: str) -> str:
    return f"ph:client_token:{digest}"
