"""The OpenAPI document says what is served, no more and no less, and can be read as a page."""

from __future__ import annotations

import re

from flask import Flask

from app.api import application
from app.api.openapi.document import document
from app.api.openapi.fields import ABOUT
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


def test_every_request_field_is_explained_and_nothing_else_is() -> None:
    schemas = document("1")["components"]["schemas"]
    fields = {
        name: about
        for request in ("ResponsesRequest", "ChatRequest", "ClientTokenRequest")
        for name, about in schemas[request]["properties"].items()
    }
    assert [name for name, about in fields.items() if not about.get("description")] == []
    assert set(ABOUT) == set(fields)


def test_stop_may_be_a_text_and_labels_are_bounded() -> None:
    fields = document("1")["components"]["schemas"]["ChatRequest"]["properties"]
    text, texts, _ = fields["stop"]["anyOf"]
    assert (text["type"], texts["type"], texts["maxItems"]) == ("string", "array", 4)
    assert fields["metadata"]["anyOf"][0]["maxProperties"] == 16


def test_the_page_tells_bounds_defaults_and_the_fields_of_objects_inside() -> None:
    text = re.sub(r"</?(code|td|tr)>", " ", page(document("1")))
    for row in (
        "temperature body number 0: the likeliest answer, which may come from the cache; at least 0, at most 2 ",
        "expires_in body integer seconds; at least 1, at most 3600, 600 by default ",
        "webhook.url body string required; at least 1 characters, at most 2048 characters ",
        "tools[].function.name body string required ",
        "top_p body number sample among the likeliest tokens of this share; more than 0, at most 1 ",
    ):
        assert row in re.sub(r"\s+", " ", text), row


def test_the_page_names_every_path_and_runs_no_script() -> None:
    made = document("1")
    text = page(made)
    assert all(path in text for path in made["paths"])
    assert "<script" not in text
