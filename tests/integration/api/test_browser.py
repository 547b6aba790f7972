"""A page of another origin in a real browser: fetch, preflights, streams, EventSource."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.api.conftest import House
from tests.support.browser import CHROMIUM, Pages
from tests.support.redis_process import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]


@pytest.fixture
def pages(house: House) -> Iterator[Pages]:
    found = Pages(house.pages)
    yield found
    found.close()


def token(house: House) -> str:
    with house.api.http() as http:
        return str(http.post("/v1/client_tokens", json={"user": "visitor"}).json()["value"])


def test_a_page_makes_and_follows_its_jobs(house: House, pages: Pages) -> None:
    secret = token(house)
    report = pages.visit("shop.html", api=house.api.url, token=secret)
    assert report["origin"] == house.pages
    assert report["chat"]["said"] == "t0 t1 t2"
    assert report["chat"]["id"].startswith("req_")
    seen = report["source"]["seen"]
    assert report["source"]["opened"] == 1
    assert [name for name, _ in seen] == [
        "response.created", "response.in_progress", *["response.output_text.delta"] * 2, "response.completed",
    ]  # fmt: skip
    assert [number for _, number in seen] == sorted({number for _, number in seen})
    assert report["job"] == "completed"
    assert report["wrong"] == {"status": 401, "code": "invalid_api_key"}
    assert report["models"] == {"status": 403, "code": "permission_denied"}
    assert report["pool"] == {"blocked": "TypeError"}
    assert secret not in house.api.log()


def test_a_page_of_an_origin_that_is_not_configured_gets_nothing(house: House) -> None:
    strangers = Pages(f"http://127.0.0.1:{free_port()}")
    try:
        report = strangers.visit("shop.html", api=house.api.url, token=token(house))
    finally:
        strangers.close()
    assert report == {"problem": "TypeError: Failed to fetch"}
