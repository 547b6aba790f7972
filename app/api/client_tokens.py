"""`POST /v1/client_tokens`: a server gets a short-lived token for the browser of one end user."""

from __future__ import annotations

import time
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from app.api.answers import answer
from app.api.authentication import caller_key, require_key
from app.api.checking import WireModel, parse
from app.api.parts import parts
from app.api.reading import json_object
from app.services.client_tokens import LONGEST_SECONDS

blueprint = Blueprint("client_tokens", __name__, url_prefix="/v1/client_tokens")
require_key(blueprint)

_ModelName = Annotated[str, Field(min_length=1, max_length=256)]


class ClientTokenRequest(WireModel):
    """The body. Without `models` the token may use those of its key."""

    models: Annotated[list[_ModelName] | None, Field(min_length=1, max_length=100)] = None
    expires_in: Annotated[int, Field(ge=1, le=LONGEST_SECONDS)] = 600
    user: Annotated[str | None, Field(min_length=1, max_length=512)] = None


@blueprint.post("")
def create() -> Response:
    api, key = parts(), caller_key()
    asked = parse(ClientTokenRequest, json_object())
    for name in asked.models or ():
        api.models.existing(name, key, param="models")
    token = api.client_tokens.create(
        key, models=tuple(asked.models or ()), user=asked.user or "", expires_in=asked.expires_in
    )
    now = int(time.time())
    response = answer(
        {
            "id": token.id,
            "object": "client_token",
            "value": token.secret,
            "created_at": now,
            "expires_at": now + token.expires_in,
            "models": list(token.models) or None,
            "user": token.user or None,
        }
    )
    response.headers["Cache-Control"] = "no-store"
    return response
