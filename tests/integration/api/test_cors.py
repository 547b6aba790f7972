"""Pages of configured origins may call and read; others get nothing that would let them."""

from __future__ import annotations

import pytest

from tests.integration.api.conftest import House

ASKING = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, x-stainless-os"}


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/responses/x", "/v1/nothing/here"])
def test_a_preflight_of_a_configured_origin_passes_without_a_key(house: House, path: str) -> None:
    with house.api.http(key=None) as http:
        answer = http.options(path, headers={"Origin": house.pages, **ASKING})
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == house.pages
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    assert answer.headers["access-control-allow-headers"] == "authorization, x-stainless-os"
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["vary"] == "Origin"
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "form", ["https://evil.example", "{0}0", "null", "", "{0}/", "{0}.evil.example", "https://{0}", "{0} {0}", "*"]
)
def test_another_origin_gets_no_permission(house: House, form: str) -> None:
    origin = form.format(house.pages)
    with house.api.http() as http:
        for answer in (
            http.options("/v1/responses", headers={"Origin": origin, **ASKING}),
            http.get("/v1/models", headers={"Origin": origin}),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            assert answer.headers["vary"] == "Origin"


def test_errors_can_be_read_too_and_headers_are_shown(house: House) -> None:
    with house.api.http(key="ph_wrong") as http:
        http.headers["Origin"] = house.pages
        for answer in (http.get("/v1/models"), http.put("/v1/models"), http.get("/v1/nothing")):
            assert answer.headers["access-control-allow-origin"] == house.pages
            shown = answer.headers["access-control-expose-headers"].split(", ")
            assert {"x-request-id", "x-ratelimit-reset-tokens", "x-posthouse-replayed", "retry-after"} <= set(shown)


def test_operators_doors_stay_closed_to_pages(house: House) -> None:
    with house.api.http() as http:
        http.headers["Origin"] = house.pages
        for path in ("/admin/pool", "/metrics", "/readyz"):
            assert "access-control-allow-origin" not in http.get(path).headers


def test_odd_header_names_are_not_sent_back(house: House) -> None:
    with house.api.http(key=None) as http:
        for wanted in ("x, <script>", "a" * 100, ", ".join("x" for _ in range(100))):
            asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": wanted}
            answer = http.options("/v1/responses", headers={"Origin": house.pages, **asking})
            assert "access-control-allow-headers" not in answer.headers
