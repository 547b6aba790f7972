"""Webhooks as a receiver gets them: once in effect, signed over the very bytes, after the result is readable."""

from __future__ import annotations

import json

import openai
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.receiver import Receiver, Reply
from tests.support.waiting import wait_until

AWKWARD = {
    "emoji": "🐎👩‍👩‍👧",
    "markup": "<b>&amp;</b>",
    "separator": "a\u2028b\u2029c",
    "float": "1.0",
    "escapes": '\\"\\u0041/\t',
    "accents": "žluťoučký kůň 驿站",
}


@pytest.fixture
def secret(stack) -> str:
    status, body = stack.get("/v1/webhook_secret")
    assert status == 200
    return str(body["secret"])


def one(receiver: Receiver):
    wait_until(lambda: receiver.received, what="a webhook comes")
    return receiver.received[0]


def test_the_official_client_unwraps_what_a_receiver_got(stack, client, receiver, secret):
    job = client.responses.create(
        model="paced", input="ring me", background=True, extra_body={"webhook": {"url": receiver.url()}}
    )
    got = one(receiver)
    event = client.webhooks.unwrap(got.body, got.headers, secret=secret)

    assert event.type == "response.completed"
    assert event.data.id == job.id
    assert event.id == got.headers["webhook-id"]
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(got.body.replace(b"completed", b"cancelled"), got.headers, secret=secret)


@pytest.mark.parametrize("name", AWKWARD)
def test_the_signature_holds_over_the_bytes_that_are_sent(stack, receiver, secret, name):
    stack.submit(AWKWARD[name], metadata={name: AWKWARD[name]}, webhook={"url": receiver.url()})
    got = one(receiver)

    Webhook(secret).verify(got.body, got.headers)
    assert json.loads(got.body)["data"]["metadata"] == {name: AWKWARD[name]}
    for at in range(0, len(got.body), 7):
        changed = got.body[:at] + bytes([got.body[at] ^ 1]) + got.body[at + 1 :]
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(changed, got.headers)


def test_retries_send_the_same_bytes_under_the_same_id(stack, secret):
    receiver = Receiver(lambda number: Reply(500 if number < 3 else 200))
    try:
        stack.submit("again and again", metadata=AWKWARD, webhook={"url": receiver.url()})
        wait_until(lambda: len(receiver.received) == 4, what="four attempts")
        wait_until(lambda: not stack.redis().exists("ph:deliveries:due"), what="nothing is due any more")
        assert len({r.body for r in receiver.received}) == 1
        assert len({r.headers["webhook-id"] for r in receiver.received}) == 1
        for each in receiver.received:
            Webhook(secret).verify(each.body, each.headers)
    finally:
        receiver.close()


def test_the_result_is_readable_before_its_webhook_leaves(stack):
    seen = []

    def look(number: int) -> Reply:
        job_id = json.loads(receiver.received[number].body)["data"]["id"]
        seen.append(stack.job(job_id)["status"])
        return Reply()

    receiver = Receiver(look)
    try:
        for n in range(5):
            stack.submit(f"ready {n}", webhook={"url": receiver.url()})
        wait_until(lambda: len(seen) == 5, what="five webhooks")
        assert seen == ["completed"] * 5
    finally:
        receiver.close()


def test_each_kind_of_end_has_its_event(stack, client, receiver):
    hook = {"url": receiver.url()}
    expected = {
        stack.submit("done", webhook=hook)["id"]: "response.completed",
        stack.submit("{{tokens=9}}", max_output_tokens=4, webhook=hook)["id"]: "response.incomplete",
        stack.submit("{{fail=400}}", webhook=hook)["id"]: "response.failed",
    }
    cancelled = stack.submit("{{tokens=500 tpot=20}}", webhook=hook)["id"]
    expected[cancelled] = "response.cancelled"
    client.responses.cancel(cancelled)

    wait_until(lambda: len(receiver.received) == 4, what="four webhooks")
    bodies = [json.loads(r.body) for r in receiver.received]
    assert {body["data"]["id"]: body["type"] for body in bodies} == expected


def test_only_the_events_that_were_asked_for_are_sent(stack, receiver):
    stack.submit("unheard", webhook={"url": receiver.url("/no"), "events": ["response.failed"]})
    stack.submit("heard", webhook={"url": receiver.url("/yes"), "events": ["response.completed"]})
    wait_until(lambda: receiver.received, what="a webhook comes")
    wait_until(lambda: not stack.redis().exists("ph:outbox", "ph:deliveries:due"), what="nothing is left to send")
    assert [r.path for r in receiver.received] == ["/yes"]


@pytest.mark.parametrize(
    "url",
    ["http://localhost:1/x", "https://10.0.0.1/x", "https://[::1]/x", "ftp://a.example/x", "https://a.example:22/"],
)
def test_a_target_that_is_not_public_is_refused(stack, url):
    answer = stack.ask(
        "POST", "/v1/responses", {"model": "paced", "input": "x", "background": True, "webhook": {"url": url}}
    )
    assert (answer.status, answer.json["error"]["code"]) == (400, "webhook_url_forbidden")
