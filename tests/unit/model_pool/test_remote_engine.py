"""A server that somebody else runs: what it is asked, and which options are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_pool import engines
from model_pool.bodies import PLAIN, Dialect
from model_pool.spec import InstanceSpec, ModelSpec

REMOTE = engines.get("remote")


def instance(**options):
    return InstanceSpec(ModelSpec("support", "remote", options=options), 0, "cpu", Path("/run/ph"))


def test_nothing_is_started():
    assert REMOTE.command(instance(url="http://host:8000")) is None


@pytest.mark.parametrize(
    "url", ["http://host:8000", "http://host:8000/", "http://host:8000/v1", "http://host:8000/v1/"]
)
def test_the_url_may_end_with_the_protocols_own_path(url):
    """SDKs want it with `/v1`, and that is what people copy."""
    assert REMOTE.endpoint(instance(url=url)).base_url == "http://host:8000"


def test_the_models_name_over_there_is_asked_for():
    assert REMOTE.endpoint(instance(url="http://host")).model == "support"
    assert REMOTE.endpoint(instance(url="http://host", model="big")).model == "big"


def test_the_key_is_sent_and_never_shown():
    """A record that ends up in a log or a traceback must not carry it there."""
    spec = instance(url="http://host", api_key="hidden")
    endpoint = REMOTE.endpoint(spec)

    assert endpoint.headers == {"Authorization": "Bearer hidden"}
    assert "hidden" not in repr(endpoint) + repr(spec)


def test_the_dialect_is_plain_unless_said_otherwise():
    """A field that a hosted API does not know makes it refuse."""
    assert REMOTE.endpoint(instance(url="http://host")).dialect == PLAIN
    assert REMOTE.endpoint(instance(url="http://host", dialect="vllm")).dialect == Dialect()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "url"),
        ({"url": "host:8000"}, "url"),
        ({"url": "http://key@host"}, "url"),
        ({"url": "http://host", "dialect": "sglang"}, "dialect"),
        ({"url": "http://host", "api_key": "two\nlines"}, "api_key"),
        ({"url": "http://host", "key": "x"}, "key"),
    ],
)
def test_unusable_options_are_named(options, named):
    with pytest.raises(engines.EngineConfigError, match=rf"models\.support\.options\.{named}"):
        REMOTE.check(instance(**options))
    REMOTE.check(instance(url="https://host/v1", api_key="k", model="m", dialect="vllm"))
