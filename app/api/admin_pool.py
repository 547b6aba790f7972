"""`GET /admin/pool`: models, their lines and instances. `/admin/breakers`: what keeps sick instances out."""

from __future__ import annotations

from typing import Literal

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.authentication import require_admin
from app.api.parts import parts
from app.errors import NotFound

blueprint = Blueprint("admin_pool", __name__, url_prefix="/admin")
require_admin(blueprint)


@blueprint.get("/pool")
def pool() -> Response:
    api = parts()
    models = {
        name: {"policy": found.policy, "backlog": state.line.waiting, "instances": state.instances}
        for name, state in api.pool.states().items()
        if (found := api.catalogue.get(name)) is not None  # else it was removed at this very moment
    }
    return answer({"models": models})


@blueprint.post("/pool/<instance>/drain")
def drain(instance: str) -> Response:
    return _order(instance, "drain")


@blueprint.post("/pool/<instance>/resume")
def resume(instance: str) -> Response:
    return _order(instance, "resume")


@blueprint.post("/pool/<instance>/restart")
def restart(instance: str) -> Response:
    return _order(instance, "restart")


def _order(instance: str, wish: Literal["drain", "resume", "restart"]) -> Response:
    parts().pool.order(instance, wish)
    return answer({"id": instance, "ordered": wish})


@blueprint.get("/breakers")
def breakers() -> Response:
    return answer({"object": "list", "data": parts().pool.breakers()})


@blueprint.post("/breakers/<name>/reset")
def reset_breaker(name: str) -> Response:
    api = parts()
    if name.rsplit(".", 1)[0] not in api.catalogue:
        raise NotFound(f"there is no breaker {name[:80]!r}; GET /admin/breakers lists them")
    return answer({"name": name, "state": "closed", "reset": api.pool.reset_breaker(name)})
