"""API keys: 256 random bits, kept as SHA-256, shown once.

`ph:apikey:<sha256>` is a hash of the key's rights (see `api_key.to_fields`), `digest`, and after a rotation `previous`,
the digest of the secret before; `ph:apikeys` is a hash id -> sha256 of the current secret. Neither has a TTL (there are
as many as the operator made), but the record of a rotated secret lives for its grace only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Any, cast

import redis

from app.errors import AuthenticationFailed
from app.redis_errors import translated
from app.services.api_key import ApiKey, Scope, Tier, from_fields, to_fields
from app.services.remembered import Remembered

__all__ = ["DEV_KEY", "ApiKey", "KeyStore", "Scope", "Tier"]

PREFIX = "ph_"
_INDEX = "ph:apikeys"
_REMEMBERED_SECONDS = 5.0
_REMEMBERED = 10_000

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
        self._dev_digest = digest_of(dev_key) if dev_key else ""
        self._remembered: Remembered[ApiKey] = Remembered(_REMEMBERED_SECONDS, _REMEMBERED, monotonic)

    def authenticate(self, secret: str) -> ApiKey:
        """The key that a caller shows. A found key is remembered for 5 s, so revoking takes that long to be seen.

        Raises:
            AuthenticationFailed: no such key.
        """
        digest = digest_of(secret)
        if hmac.compare_digest(digest, self._dev_digest):
            return DEV_KEY
        found = self._remembered.get(digest) or self._looked_up(digest)
        if found is None:
            raise AuthenticationFailed("this API key is not known; check the Authorization header")
        return found

    def by_id(self, key_id: str) -> ApiKey | None:
        """The key of this id as it is now, or None when it was revoked."""
        if key_id == DEV_KEY.id:
            return DEV_KEY if self._dev_digest else None
        with translated():
            digest = cast("str | None", self._client.hget(_INDEX, key_id))
        return None if digest is None else self._find(digest)

    def create(
        self,
        tenant: str,
        *,
        name: str = "",
        scope: Scope = "use",
        tier_cap: Tier = "priority",
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        models: tuple[str, ...] = (),
    ) -> tuple[ApiKey, str]:
        """A new key and its secret, which is shown nowhere else ever again."""
        secret = _new_secret()
        key = ApiKey(
            "key_" + secrets.token_hex(8), tenant, name, scope, tier_cap, int(time.time()), requests_per_minute,
            tokens_per_minute, models,
        )  # fmt: skip
        digest = digest_of(secret)
        with translated(), self._client.pipeline() as pipeline:
            _write(pipeline, key, digest)
            pipeline.execute()
        return key, secret

    def list(self) -> list[ApiKey]:
        """All keys, oldest first."""
        with translated():
            index = cast("dict[str, str]", self._client.hgetall(_INDEX))
        found = [self._find(digest) for digest in index.values()]
        return sorted((k for k in found if k is not None), key=lambda k: k.created_at)

    def revoke(self, key_id: str) -> bool:
        """Forget a key with all its secrets; False when there was none of this id."""
        return self._changed(key_id, lambda pipeline, old: _forget(pipeline, key_id, old))

    def rotate(self, key_id: str, *, grace_seconds: float = 0) -> str | None:
        """Give a key a new secret: same id, tenant and rights. None when there is no key of this id.

        The secret before works for the grace period on; one from an earlier rotation ends now.
        """
        secret = _new_secret()

        def replace(pipeline: Any, old: dict[str, str]) -> None:
            grace = int(grace_seconds * 1000)
            retired = [old.get("previous", "")] if grace else [old.get("previous", ""), old["digest"]]
            for digest in filter(None, retired):
                pipeline.delete(_record(digest))
            if grace:
                pipeline.pexpire(_record(old["digest"]), grace)
            _write(pipeline, from_fields(old), digest_of(secret), previous=old["digest"])

        return secret if self._changed(key_id, replace) else None

    def _changed(self, key_id: str, change: Callable[[Any, dict[str, str]], None]) -> bool:
        """Change a key's records in one step; somebody else's change in between makes it read them again."""

        def attempt(pipeline: Any) -> bool:
            digest = pipeline.hget(_INDEX, key_id)
            old = pipeline.hgetall(_record(digest)) if digest is not None else {}
            pipeline.multi()
            if old:
                change(pipeline, old)
                self._remembered.forget(old["digest"])
            return bool(old)

        with translated():
            found: Any = self._client.transaction(attempt, _INDEX, value_from_callable=True)  # type: ignore[arg-type]
        return bool(found)  # the stub does not know value_from_callable

    def _looked_up(self, digest: str) -> ApiKey | None:
        found = self._find(digest)
        if found is not None:
            self._remembered.put(digest, found)
        return found

    def _find(self, digest: str) -> ApiKey | None:
        with translated():
            fields = cast("dict[str, str]", self._client.hgetall(_record(digest)))
        if not fields or not hmac.compare_digest(fields["digest"], digest):
            return None
        return from_fields(fields)


def digest_of(secret: str) -> str:
    """What is kept of a secret of 256 random bits: its SHA-256 in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _write(pipeline: Any, key: ApiKey, digest: str, previous: str = "") -> None:
    fields: dict[Any, Any] = {**to_fields(key), "digest": digest, "previous": previous}
    pipeline.hset(_record(digest), mapping=fields)
    pipeline.hset(_INDEX, key.id, digest)


def _forget(pipeline: Any, key_id: str, old: dict[str, str]) -> None:
    for digest in filter(None, (old["digest"], old.get("previous", ""))):
        pipeline.delete(_record(digest))
    pipeline.hdel(_INDEX, key_id)


def _record(digest: str) -> str:
    return f"ph:apikey:{digest}"
