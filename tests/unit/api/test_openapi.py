"""The OpenAPI document says what is served, no more and no less, and can be read as a page."""

from __future__ import annotations

import re

from flask import Flask

from app.api import application
from app.api.openapi.document import document
from app.api.openapi.page import page

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
# Not part of the interface: the description itself.
UNDESCRIBED = {("GET", "/openapi.json"), ("GET", "/docs")}


def served() -> set[tuple[str, str]]:
    app = Flask("test", static_folder=None)
    for blueprint in application._BLUEPRINTS:
        app.register_blueprint(blueprint)
    rules = app.url_map.iter_rules()
    return {(m, re.sub(r"<[^>]+>", "{}", r.rule)) for r in rules for m in (r.methods or set()) & METHODS}


def test_every_route_is_described_and_every_description_is_a_route() -> None:
    paths = document("1")["paths"]
    described = {(m.upper(), re.sub(r"{[^}]+}", "{}", path)) for path, methods in paths.items() for m in methods}
    assert described == served() - UNDESCRIBED


def test_every_reference_resolves() -> None:
    made = document("1")
    names = set(re.findall(r"'#/components/schemas/(\w+)'", str(made)))
    assert names <= set(made["components"]["schemas"])


def test_request_fields_are_those_that_are_checked() -> None:
    schemas = document("1")["components"]["schemas"]
    assert schemas["ResponsesRequest"]["additionalProperties"] is False
    assert {"model", "input"} == set(schemas["ResponsesRequest"]["required"])


def test_the_page_names_every_path_and_runs_no_script() -> None:
    made = document("1")
    text = page(made)
    assert all(path in text for path in made["paths"])
    assert "<script" not in text
