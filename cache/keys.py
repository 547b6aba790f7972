"""Which requests are the same request. Pure.

The canonical form of a request is its JSON text with object members sorted by name at every depth, no white space
between tokens, and everything but ASCII escaped. Nothing else is evened out: white space inside texts, the order of
lists, `1` against `1.0`, a field that is absent against one that is null, and Unicode normalisation all tell requests
apart, because each may change what the engine sees. Two requests that only look different cost a miss; two that were
taken for the same would cost a wrong answer.

The whole request is digested, so a field that this room has never heard of is part of the key.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

PREFIX = "phc"
CLAIM_PREFIX = "phcr"
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Where one request's answer is kept.

    Attributes:
        tenant_digest: 16 hexadecimal digits; the tenant's name stands in no key.
        model: the model's name as clients say it.
        revision: of the model's weights; what is kept under this key must come from it.
        digest: SHA-256 over tenant, model, revision, quantisation and request, in hexadecimal.
    """

    tenant_digest: str
    model: str
    revision: str
    digest: str

    def name(self, prefix: str = PREFIX) -> str:
        """The Redis key: `<prefix>:<tenant digest>:<model>:<digest>`."""
        return f"{prefix}:{self.tenant_digest}:{_plain(self.model)}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What to clear: everything, or what belongs to a tenant, to a model, or to both. None is any."""

    tenant: str | None = None
    model: str | None = None

    def pattern(self) -> str:
        """The keys of this scope as a pattern for SCAN; no part of a name can act as a wildcard."""
        tenant = "*" if self.tenant is None else tenant_digest(self.tenant)
        model = "*" if self.model is None else _plain(self.model)
        return f"{PREFIX}:{tenant}:{model}:*"

    def covers(self, key: CacheKey) -> bool:
        of_tenant = self.tenant is None or tenant_digest(self.tenant) == key.tenant_digest
        return of_tenant and self.model in {None, key.model}


def canonical_json(value: Any) -> str:
    """The canonical form above.

    Raises:
        ValueError: a number is NaN or infinite.
        TypeError: a value has no JSON form.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


@functools.lru_cache(maxsize=4096)
def tenant_digest(tenant: str) -> str:
    """16 hexadecimal digits that stand for a tenant in key names."""
    return _sha256(canonical_json(["tenant", tenant]))[:16]


def cache_key(*, tenant: str, model: str, revision: str, quantization: str, request: Mapping[str, Any]) -> CacheKey:
    """The key of one request.

    Args:
        tenant: whose request it is; no other tenant can come to the same key.
        model: the model's name.
        revision: of the weights. Must change when they do, or a swapped model answers with its predecessor's words.
        quantization: which quantisation of them.
        request: messages and every parameter that the engine is given, defaults filled in by the caller included.
    """
    owner = canonical_json([_SCHEMA, tenant, model, revision, quantization])
    return CacheKey(tenant_digest(tenant), model, revision, _sha256(f"{owner}\n{canonical_json(request)}"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _plain(name: str) -> str:
    """A name without the characters that separate key parts or mean something in a pattern."""
    return quote(name, safe="")
