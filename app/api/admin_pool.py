"""`GET /admin/pool`: models, their lines and instances."""

from __future__ import annotations

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.authentication import require_admin
from app.api.parts import parts
from app.services.pool import POLICY

blueprint = Blueprint("admin_pool", __name__, url_prefix="/admin")
require_admin(blueprint)


@blueprint.get("/pool")
def pool() -> Response:
    states = parts().pool.states()
    models = {
        name: {"policy": POLICY, "backlog": state.backlog, "instances": state.instances}
        for name, state in states.items()
    }
    return answer({"models": models})
