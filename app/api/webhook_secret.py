"""`/v1/webhook_secret`: the secret that signs the webhooks of this tenant's requests, and its rotation."""

from __future__ import annotations

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.authentication import caller_key, require_key
from app.api.parts import parts

blueprint = Blueprint("webhook_secret", __name__, url_prefix="/v1/webhook_secret")
require_key(blueprint)


@blueprint.get("")
def read() -> Response:
    return _shown(parts().webhook_secret(caller_key().tenant))


@blueprint.post("/rotate")
def rotate() -> Response:
    """The secret before signs along for 24 hours."""
    return _shown(parts().rotate_webhook_secret(caller_key().tenant))


def _shown(secret: str) -> Response:
    response = answer({"object": "webhook_secret", "secret": secret})
    response.headers["Cache-Control"] = "no-store"
    return response
