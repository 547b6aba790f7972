"""`GET /admin/queues`: who waits for what, for how long, and the hints that lie in Celery's queues."""

from __future__ import annotations

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.authentication import require_admin
from app.api.parts import parts

blueprint = Blueprint("admin_queues", __name__, url_prefix="/admin")
require_admin(blueprint)


@blueprint.get("/queues")
def queues() -> Response:
    pool = parts().pool
    models = {name: line.to_dict() for name, line in pool.lines().items()}
    return answer({"models": models, "hints": pool.hints(), "totals": pool.totals()})
