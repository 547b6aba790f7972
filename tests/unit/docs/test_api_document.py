"""docs/api.md leaves out no endpoint."""

from __future__ import annotations

import re

from app.api.openapi.document import document
from tests.support.api_document import TEXT


def test_every_endpoint_is_in_the_document() -> None:
    forms = {path: re.sub(r"{\w+}", r"[^/\\s`]+", path) for path in document("1")["paths"]}
    assert [path for path, form in forms.items() if not re.search(rf"{form}(?![\w/])", TEXT)] == []
