"""`/admin/cache`: what the response cache holds and did, and clearing it for a tenant, a model, or all."""

from __future__ import annotations

import dataclasses
from typing import Any

from flask import Blueprint, Response, request

from app.api.answers import answer
from app.api.authentication import require_admin
from app.api.parts import parts
from app.errors import InvalidRequest, Unavailable
from cache.errors import StoreUnavailable
from cache.keys import Scope
from cache.outcomes import CacheStats

blueprint = Blueprint("admin_cache", __name__, url_prefix="/admin/cache")
require_admin(blueprint)


@blueprint.get("")
def stats() -> Response:
    return answer(shown(parts().cache.stats()))


@blueprint.delete("")
def clear() -> Response:
    unknown = sorted(set(request.args) - {"tenant", "model"})
    if unknown:  # a misspelt filter must not clear everything
        raise InvalidRequest(f"{unknown[0]}: only tenant and model choose what to clear", param=unknown[0])
    api = parts()
    model = request.args.get("model")
    if model is not None:
        api.models.existing(model)
    try:
        cleared = api.cache.clear(Scope(request.args.get("tenant"), model))
    except StoreUnavailable:
        raise Unavailable("the cache does not answer just now; nothing or not all was cleared", retry_after=1) from None
    return answer({"removed": cleared.entries, "complete": cleared.complete})


def shown(found: CacheStats) -> dict[str, Any]:
    """The numbers of a cache, with the share of looks that were answered from it."""
    return {**dataclasses.asdict(found), "breaker": str(found.breaker), "hit_ratio": found.hit_ratio}
