"""`x-ratelimit-{limit,remaining,reset}-{requests,tokens}` on answers to submits of keys that have such a limit.

Keys without limits get none of the headers: any number there would be made up.
"""

from __future__ import annotations

import math

from flask import Flask, Response, g, has_request_context
from prometheus_client import Counter

from app.flow.rate_limit import Standing

_unchecked = Counter("posthouse_rate_limits_unchecked", "submits let through because Redis could not count them")


class RateObserver:
    """Remembers where a key stands until its request is answered, and counts what could not be counted."""

    def stands(self, standing: Standing) -> None:
        if has_request_context():
            g.setdefault("standings", []).append(standing)

    def unchecked(self) -> None:
        _unchecked.inc()


def register(app: Flask) -> None:
    """Put the headers on answers and refusals alike."""

    def add(response: Response) -> Response:
        for standing in g.get("standings", ()):
            response.headers[f"x-ratelimit-limit-{standing.kind}"] = str(standing.limit)
            response.headers[f"x-ratelimit-remaining-{standing.kind}"] = str(standing.remaining)
            response.headers[f"x-ratelimit-reset-{standing.kind}"] = duration(standing.reset_seconds)
        return response

    app.after_request(add)


def duration(seconds: float) -> str:
    """A duration as OpenAI writes it: `12ms`, `7s`, `1m3s`; rounded up, so that nobody comes too early."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:  # noqa: PLR2004 -- a second
        return f"{milliseconds}ms"
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
