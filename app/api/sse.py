"""Server-sent events: framing as the HTML standard has it, and the headers that keep proxies from buffering."""

from __future__ import annotations

from typing import Final

HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
MIMETYPE: Final = "text/event-stream"
# A comment is one line and no more: the blank line after it would make an OpenAI SDK dispatch an event without data,
# because its decoder keeps the last id.
KEEP_ALIVE: Final = b": keep-alive\n"
DONE: Final = "data: [DONE]\n\n"


def data(text: str) -> str:
    """An event without a name; `text` holds no line break (JSON never does)."""
    return f"data: {text}\n\n"


def event(name: str, number: int, text: str) -> str:
    """A named event whose id is its sequence number."""
    return f"event: {name}\nid: {number}\ndata: {text}\n\n"


def position(rank: int, eta_seconds: float | None) -> bytes:
    """A comment with the place in line and the expected wait, if it is known; every client skips comments."""
    eta = "" if eta_seconds is None else f" eta={eta_seconds:.1f}"
    return f": position={rank}{eta}\n".encode()
