"""`/v1/models`: what is offered."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.authentication import caller_key, require_key
from app.api.parts import parts

blueprint = Blueprint("models", __name__, url_prefix="/v1/models")
require_key(blueprint)


@blueprint.get("")
def index() -> Response:
    models, key = parts().models, caller_key()
    mine = [_model(name, models.created) for name in models.names() if key.may_use(name)]
    return answer({"object": "list", "data": mine})


@blueprint.get("/<name>")
def read(name: str) -> Response:
    models = parts().models
    return answer(_model(models.existing(name, caller_key()).name, models.created))


def _model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "posthouse"}
