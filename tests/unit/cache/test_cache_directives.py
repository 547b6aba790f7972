"""Request headers are read as RFC 9111 says, whatever stands in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.directives import Directives, parse


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Directives()),
        ("no-store", Directives(no_store=True)),
        ("NO-CACHE", Directives(no_cache=True)),
        ("max-age=60, only-if-cached", Directives(max_age=60, only_if_cached=True)),
        ("no-cache,no-store", Directives(no_store=True, no_cache=True)),
        ("max-age=0", Directives(max_age=0)),
        ('max-age="60"', Directives(max_age=60)),
        ("  max-age=60  ,, ", Directives(max_age=60)),
        ("max-age=10, max-age=20", Directives(max_age=10)),
        ("max-age=x, max-age=20", Directives(max_age=20)),
        ("max-age=99999999999999999999", Directives(max_age=2**31)),
        ("max-age=0000000000000000000060", Directives(max_age=60)),
        ("max-age=" + "9" * 5000, Directives(max_age=2**31)),
        ('no-cache="set-cookie"', Directives(no_cache=True)),
        ('private="a, no-store, b", min-fresh=5, x', Directives()),
    ],
)
def test_directives(header: str, expected: Directives) -> None:
    assert parse(header) == expected


@pytest.mark.parametrize("value", ["", "-1", "1.5", "abc", "+5", "1e3", "6 0", "٣", "²", '"', "0x10"])
def test_a_malformed_age_is_ignored(value: str) -> None:
    assert parse(f"max-age={value}") == Directives()
    assert parse("max-age") == Directives()


@pytest.mark.parametrize(
    ("header", "allow"), [("allow", True), ("Allow", True), (" allow ", True), ("", False), ("deny", False)]
)
def test_the_opt_in(header: str, allow: bool) -> None:
    assert parse("", header).allow is allow


@pytest.mark.parametrize(
    ("header", "may_read", "may_store"),
    [("", True, True), ("no-cache", False, True), ("no-store", False, False), ("max-age=0", True, True)],
)
def test_what_follows_from_them(header: str, may_read: bool, may_store: bool) -> None:
    directives = parse(header)
    assert (directives.may_read, directives.may_store) == (may_read, may_store)


@given(st.text(), st.text())
def test_no_text_is_too_strange(cache_control: str, posthouse_cache: str) -> None:
    age = parse(cache_control, posthouse_cache).max_age
    assert age is None or 0 <= age <= 2**31
