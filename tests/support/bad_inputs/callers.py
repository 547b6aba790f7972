"""Keys and headers that are wrong, and client tokens that cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.bad_inputs.request import CHAT, RESPONSES, TOKENS, Bad, chat, respond, shown

_KEYED = (
    ("POST", CHAT), ("POST", RESPONSES), ("POST", TOKENS), ("GET", RESPONSES), ("GET", "/v1/models"),
    ("GET", "/v1/webhook_secret"), ("GET", "/admin/pool"), ("GET", "/metrics"),
)  # fmt: skip


def headers() -> Iterator[Bad]:
    """Headers that are wrong, or belong to nobody."""
    for path, make in ((CHAT, chat), (RESPONSES, respond)):
        for key in ("", "x" * 256):
            given = {"Idempotency-Key": key}
            yield Bad(f"key of {len(key)}", "POST", path, make(), "Idempotency-Key", headers=given)
    for method, path in _KEYED:
        for secret in ("Bearer wrong", "Bearer ", "Basic eDp5", "Bearer " + "x" * 600, "Bearer ek_wrong"):
            given = {"Authorization": secret}
            body = {} if method == "POST" else None
            yield Bad(f"{secret[:16]!r}", method, path, body, None, 401, "invalid_api_key", given)


def tokens() -> Iterator[Bad]:
    """Client tokens that cannot be."""
    for name, values in {
        "expires_in": [0, -1, 3601, "60", 1.5, None, True, 10**12],
        "models": ["paced", [], [1], [""], {}],
        "user": [7, "", "x" * 513],
        "scope": ["admin"],
    }.items():
        for value in values:
            at = f"{name}[0]" if value in ([1], [""]) else name
            yield Bad(f"{name}={shown(value)}", "POST", TOKENS, {name: value}, at)
    yield Bad("models nobody", "POST", TOKENS, {"models": ["nobody"]}, "models", 404, "model_not_found")
