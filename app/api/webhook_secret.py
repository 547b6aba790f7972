"""`GET /v1/webhook_secret`: the secret that signs the webhooks of this tenant's requests."""

from __future__ import annotations

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.authentication import caller_key, require_key
from app.api.parts import parts

blueprint = Blueprint("webhook_secret", __name__, url_prefix="/v1/webhook_secret")
require_key(blueprint)


@blueprint.get("")
def read() -> Response:
    response = answer({"object": "webhook_secret", "secret": parts().webhook_secret(caller_key().tenant)})
    response.headers["Cache-Control"] = "no-store"
    return response
