"""`/openapi.json` and `/docs`: the interface, described. Open to all: it holds no secret and no configuration."""

from __future__ import annotations

from importlib.metadata import version

from flask import Blueprint, Response

from app.api.answers import answer
from app.api.openapi.document import document
from app.api.openapi.page import page

blueprint = Blueprint("reference", __name__)


@blueprint.get("/openapi.json")
def as_data() -> Response:
    return answer(document(version("posthouse")))


@blueprint.get("/docs")
def as_page() -> Response:
    return Response(page(document(version("posthouse"))), mimetype="text/html")
