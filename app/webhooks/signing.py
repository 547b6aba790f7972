"""Signatures after the Standard Webhooks specification (standard-webhooks/standard-webhooks, version 1)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from standardwebhooks import Webhook


def signed_headers(event_id: str, body: bytes, secrets: Iterable[str], now: float) -> dict[str, str]:
    """The three headers that prove who sent `body`, and when.

    Args:
        event_id: the event's id, the same on every attempt.
        body: the bytes that go on the wire, UTF-8.
        secrets: `whsec_` + base64; the current one first, then those that still sign along after a rotation.
        now: time of this attempt, seconds since the epoch. Receivers refuse what is more than five minutes off.
    """
    moment = datetime.fromtimestamp(int(now), tz=UTC)
    text = body.decode("utf-8")
    signatures = [Webhook(secret).sign(event_id, moment, text) for secret in secrets]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": " ".join(signatures),
    }
