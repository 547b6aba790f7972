"""API keys: 256 random bits, kept as SHA-256, shown once.

`ph:apikey:<sha256>` (hash `id`, `tenant`, `name`, `scope`, `tier_cap`, `created_at`) and `ph:apikeys` (hash id ->
sha256) have no TTL; there are as many as the operator made.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

import redis

from app.errors import AuthenticationFailed
from app.redis_errors import translated

Scope = Literal["use", "admin"]
Tier = Literal["priority", "default", "flex"]

PREFIX = "ph_"
_INDEX = "ph:apikeys"
_REMEMBERED_SECONDS = 5.0
_REMEMBERED = 10_000


@dataclass(frozen=True)
class ApiKey:
    """Who may do what: a key without its secret.

    Attributes:
        id: names the key to operators; not secret.
        scope: `use` may run jobs; `admin` may do that and operate the house.
        tier_cap: the best service tier that its jobs may have.
        created_at: Unix seconds.
    """

    id: str
    tenant: str
    name: str
    scope: Scope
    tier_cap: Tier
    created_at: int

    @property
    def is_admin(self) -> bool:
        return self.scope == "admin"


DEV_KEY = ApiKey("key_dev", "dev", "development key", "admin", "priority", 0)


class KeyStore:
    """Keys in Redis. Redis away raises `QueueUnavailable`.

    Args:
        client: jobs role.
        dev_key: one key that is accepted without a record, with every scope; empty: none.
        monotonic: seconds.
    """

    def __init__(self, client: redis.Redis, dev_key: str = "", monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._dev_digest = _digest(dev_key) if dev_key else ""
        self._monotonic = monotonic
        self._remembered: dict[str, tuple[ApiKey, float]] = {}

    def authenticate(self, secret: str) -> ApiKey:
        """The key that a caller shows. A found key is remembered for 5 s, so revoking takes that long to be seen.

        Raises:
            AuthenticationFailed: no such key.
        """
        digest = _digest(secret)
        if hmac.compare_digest(digest, self._dev_digest):
            return DEV_KEY
        known = self._remembered.get(digest)
        if known is not None and known[1] > self._monotonic():
            return known[0]
        found = self._find(digest)
        if found is None:
            self._remembered.pop(digest, None)
            raise AuthenticationFailed("this API key is not known; check the Authorization header")
        self._remember(digest, found)
        return found

    def create(
        self, tenant: str, *, name: str = "", scope: Scope = "use", tier_cap: Tier = "priority"
    ) -> tuple[ApiKey, str]:
        """A new key and its secret, which is shown nowhere else ever again."""
        secret = PREFIX + secrets.token_urlsafe(32)
        key = ApiKey("key_" + secrets.token_hex(8), tenant, name, scope, tier_cap, int(time.time()))
        self._write(key, secret)
        return key, secret

    def list(self) -> list[ApiKey]:
        """All keys, oldest first."""
        with translated():
            index = cast("dict[str, str]", self._client.hgetall(_INDEX))
        found = [self._find(digest) for digest in index.values()]
        return sorted((k for k in found if k is not None), key=lambda k: k.created_at)

    def revoke(self, key_id: str) -> bool:
        """Forget a key; False when there was none of this id."""
        with translated():
            digest = cast("str | None", self._client.hget(_INDEX, key_id))
            if digest is None:
                return False
            self._client.delete(_record(digest))
            self._client.hdel(_INDEX, key_id)
        self._remembered.pop(digest, None)
        return True

    def _write(self, key: ApiKey, secret: str) -> None:
        digest = _digest(secret)
        with translated():
            pipeline = self._client.pipeline()
            fields: dict[Any, Any] = {**asdict(key), "digest": digest}
            pipeline.hset(_record(digest), mapping=fields)
            pipeline.hset(_INDEX, key.id, digest)
            pipeline.execute()

    def _find(self, digest: str) -> ApiKey | None:
        with translated():
            fields = cast("dict[str, Any]", self._client.hgetall(_record(digest)))
        if not fields or not hmac.compare_digest(fields.pop("digest", ""), digest):
            return None
        fields["created_at"] = int(fields["created_at"])
        return ApiKey(**fields)

    def _remember(self, digest: str, key: ApiKey) -> None:
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = (key, self._monotonic() + _REMEMBERED_SECONDS)


def _record(digest: str) -> str:
    return f"ph:apikey:{digest}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
