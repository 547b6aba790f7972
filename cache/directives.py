"""What a client says about the cache in its request headers (RFC 9111, section 5.2.1). Pure.

`Cache-Control`: `no-store`, `no-cache`, `max-age=N`, `only-if-cached`; `x-posthouse-cache: allow` opts a sampled
request in. Other directives are ignored, and so is a `max-age` that is no number of seconds. A directive that takes no
argument counts with one too: what a client meant to forbid stays forbidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.request import parse_http_list

# RFC 9111, section 1.2.2: a larger number is taken as this one.
_MOST_SECONDS = 2**31


@dataclass(frozen=True, slots=True)
class Directives:
    """One request's wishes.

    Attributes:
        max_age: seconds that an answer may be old, or None.
        allow: the client is content with an earlier answer although its request samples.
    """

    no_store: bool = False
    no_cache: bool = False
    max_age: int | None = None
    only_if_cached: bool = False
    allow: bool = False

    @property
    def may_read(self) -> bool:
        """An earlier answer, or one in the making, may be given."""
        return not (self.no_store or self.no_cache)

    @property
    def may_store(self) -> bool:
        """The answer to this request may be kept for others."""
        return not self.no_store


def parse(cache_control: str = "", posthouse_cache: str = "") -> Directives:
    """Read the two headers; an absent one is an empty text. Never fails."""
    given = list(_pairs(cache_control))
    names = {name for name, _ in given}
    ages = [age for name, value in given if name == "max-age" and (age := _seconds(value)) is not None]
    return Directives(
        no_store="no-store" in names,
        no_cache="no-cache" in names,
        max_age=ages[0] if ages else None,
        only_if_cached="only-if-cached" in names,
        allow=any(name == "allow" for name, _ in _pairs(posthouse_cache)),
    )


def _pairs(header: str) -> Iterator[tuple[str, str]]:
    for item in parse_http_list(header):
        name, _, value = item.partition("=")
        yield name.strip().lower(), value


def _seconds(value: str) -> int | None:
    digits = value.removeprefix('"').removesuffix('"')
    if not (digits.isascii() and digits.isdigit()):
        return None
    # More digits than the limit has cannot make a smaller number, and Python refuses to convert very long ones.
    significant = digits.lstrip("0") or "0"
    return _MOST_SECONDS if len(significant) > len(str(_MOST_SECONDS)) else min(int(significant), _MOST_SECONDS)
