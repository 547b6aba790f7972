"""Receivers with the reference library accept what we sign, and nothing that differs from it."""

from __future__ import annotations

import base64
import json
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from app.webhooks.events import response_ended
from app.webhooks.signing import signed_headers

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()
METADATA = {
    "emoji": "👩‍👩‍👧‍👦 ✓",
    "markup": "<b>&amp;</b>",
    "separators": "\u2028\u2029",
    "rtl": "שלום",
    "combining": "e\u0301",
    "float": "1.0",
    "quote": '"\\/',
}


def body() -> bytes:
    return response_ended("resp_1", "completed", "support", METADATA, 1_700_000_000.9).body


def test_the_reference_verifier_accepts_every_payload_unchanged():
    sent = body()
    received = Webhook(SECRET).verify(sent, signed_headers("evt_1", sent, [SECRET], time.time()))
    assert received["data"]["metadata"] == METADATA


def test_any_one_byte_change_fails():
    sent = body()
    headers = signed_headers("evt_1", sent, [SECRET], time.time())
    for position in range(len(sent)):
        changed = sent[:position] + bytes([sent[position] ^ 1]) + sent[position + 1 :]
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(changed, headers)


def test_numbers_keep_the_spelling_that_was_signed():
    sent = b'{"one":1.0,"tiny":1e-7}'
    headers = signed_headers("evt_1", sent, [SECRET], time.time())
    Webhook(SECRET).verify(sent, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(json.dumps(json.loads(sent)).encode(), headers)


def test_another_id_or_time_does_not_verify():
    sent = body()
    headers = signed_headers("evt_1", sent, [SECRET], time.time())
    for change in ({"webhook-id": "evt_2"}, {"webhook-timestamp": str(int(time.time()) - 2)}):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(sent, {**headers, **change})


@pytest.mark.parametrize("skew", [-600, 600])
def test_a_clock_ten_minutes_off_is_refused_by_the_receiver(skew: int):
    sent = body()
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(sent, signed_headers("evt_1", sent, [SECRET], time.time() + skew))


@pytest.mark.parametrize("held", [SECRET, OTHER])
def test_during_a_rotation_receivers_with_either_secret_accept(held: str):
    sent = body()
    headers = signed_headers("evt_1", sent, [SECRET, OTHER], time.time())
    assert len(headers["webhook-signature"].split(" ")) == 2
    Webhook(held).verify(sent, headers)


def test_the_official_sdk_unwraps_it():
    import openai

    sent = body()
    client = openai.OpenAI(api_key="unused", webhook_secret=SECRET)
    event = client.webhooks.unwrap(sent.decode(), signed_headers("evt_1", sent, [SECRET], time.time()))
    assert (event.type, event.data.id) == ("response.completed", "resp_1")


def test_the_event_id_follows_from_the_job():
    first = response_ended("resp_1", "completed", "m", {}, 1.0)
    assert first.id == response_ended("resp_1", "completed", "m", {}, 2.0).id
    assert first.id != response_ended("resp_2", "completed", "m", {}, 1.0).id
    assert first.id.startswith("evt_")


def test_the_body_says_what_the_wire_promises():
    event = response_ended("resp_1", "failed", "support", {"k": "v"}, 1_700_000_000.9)
    assert json.loads(event.body) == {
        "id": event.id,
        "object": "event",
        "created_at": 1_700_000_000,
        "type": "response.failed",
        "data": {"id": "resp_1", "object": "response", "status": "failed", "model": "support", "metadata": {"k": "v"}},
    }
