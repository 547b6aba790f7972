"""A queue that is full says so, keeps nothing of what it refuses, and leaves room for others."""

from __future__ import annotations

from app.services.keys import KeyStore
from tests.support.house import PACED
from tests.support.waiting import wait_until

CONFIG = (
    PACED
    + """
[jobs]
queue_cap = 200
[webhooks]
allow_hosts = ["127.0.0.1"]
"""
)


def test_a_hundred_of_one_tenant_wait_fifty_are_refused_and_another_tenant_has_room(house, receiver):
    home = house(CONFIG)
    home.api()
    first, second = (KeyStore(home.redis()).create(tenant)[1] for tenant in ("first", "second"))

    def submit(key: str, number: int):
        body = {"model": "paced", "input": f"number {number}", "background": True, "webhook": {"url": receiver.url()}}
        return home.ask("POST", "/v1/responses", body, key=key, **{"Idempotency-Key": f"k{number}"})

    answers = [submit(first, number) for number in range(150)]
    assert [a.status for a in answers] == [200] * 100 + [429] * 50
    for refused in answers[100:]:
        assert refused.json["error"]["code"] == "queue_full"
        assert int(refused.headers["retry-after"]) >= 1
    assert [submit(second, number).status for number in range(5)] == [200] * 5
    redis = home.redis()
    assert {kind: len(redis.keys(f"ph:{kind}:*")) for kind in ("job", "idem")} == {"job": 105, "idem": 105}

    home.start("webhooks")
    home.worker()
    for answer in answers[:100]:
        assert home.ended(answer.json["id"], key=first)["status"] == "completed"
    again = submit(first, 149)
    assert (again.status, "x-posthouse-replayed" in again.headers) == (200, False)
    assert home.ended(again.json["id"], key=first)["status"] == "completed"
    wait_until(lambda: len(receiver.received) >= 106, what="a webhook of each that was accepted", limit=60)
    assert len({got.headers["webhook-id"] for got in receiver.received}) == 106
