"""The secret that signs a tenant's webhooks, encrypted at rest.

`ph:tenant:<tenant>:webhook_secret` (hash `current`, `previous`) has no TTL: receivers are configured with its value. It
is one key per tenant. Secrets are `whsec_` + base64 of 32 random bytes, encrypted with Fernet under the configuration's
`secret_key`; whoever reads Redis alone cannot sign.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

import redis
from cryptography.fernet import Fernet, InvalidToken
from redis.exceptions import OutOfMemoryError

from app.errors import QueueUnavailable, ServerError, StorageFull
from app.lua import Scripts
from app.redis import REDIS_AWAY
from app.settings import ConfigurationError
from app.webhooks.scripts import SCRIPTS

SIGNS_ALONG_MS: Final = 24 * 3600 * 1000


class TenantSecrets:
    """Makes, reads and rotates tenants' webhook secrets.

    Args:
        secret_key: Fernet key, 32 bytes in url-safe base64.
        entropy: `n -> n random bytes`.

    Redis away raises `QueueUnavailable`, Redis full `StorageFull`, a secret under another key `ServerError`.

    Raises:
        ConfigurationError: `secret_key` is missing or not a Fernet key.
    """

    def __init__(
        self,
        client: redis.Redis,
        secret_key: str,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._client = client
        self._scripts = Scripts(client, SCRIPTS)
        self._fernet = _fernet(secret_key)
        self._entropy = entropy

    def get_or_create(self, tenant: str) -> str:
        """The tenant's current secret; made at the first call, and the same for all who ask at once."""
        with _translated():
            stored = self._current(tenant)
            if stored is None:
                self._client.hsetnx(_key(tenant), "current", self._sealed())
                stored = self._current(tenant)
        return self._open(stored or "")

    def rotate(self, tenant: str) -> str:
        """Replace the secret and return the new one; the one before signs along for 24 hours."""
        self.get_or_create(tenant)
        with _translated():
            self._scripts.call("rotate_secret", tenant, self._sealed(), SIGNS_ALONG_MS)
        return self.get_or_create(tenant)

    def signing(self, tenant: str) -> tuple[str, ...]:
        """All secrets that sign now: the current one first, then replaced ones within their 24 hours."""
        with _translated():
            current, *previous = self._scripts.call("signing_secrets", tenant)
        if not current:
            return (self.get_or_create(tenant),)
        return tuple(self._open(token) for token in (current, *previous))

    def _current(self, tenant: str) -> str | None:
        return cast("str | None", self._client.hget(_key(tenant), "current"))

    def _sealed(self) -> str:
        secret = "whsec_" + base64.b64encode(self._entropy(32)).decode()
        return self._fernet.encrypt(secret.encode()).decode()

    def _open(self, token: str) -> str:
        try:
            return self._fernet.decrypt(token.encode()).decode()
        except InvalidToken:
            msg = "The tenant's webhook secret cannot be decrypted: secret_key is not the one it was encrypted with."
            raise ServerError(msg) from None


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OutOfMemoryError:
        raise StorageFull("the storage is full; try again later", retry_after=30) from None
    except REDIS_AWAY as error:
        raise QueueUnavailable("the storage does not answer just now", retry_after=2) from error


def _key(tenant: str) -> str:
    return f"ph:tenant:{tenant}:webhook_secret"


def _fernet(secret_key: str) -> Fernet:
    try:
        return Fernet(secret_key.encode())
    except ValueError:
        msg = "secret_key: set it to 32 random bytes in url-safe base64 (it encrypts webhook secrets)"
        raise ConfigurationError(msg) from None
