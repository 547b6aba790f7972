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


def test_what_waits_past_its_deadline_ends_there_and_never_starts(house, receiver):
    home = house(CONFIG.replace("max_concurrency = 16", "max_concurrency = 1"))
    home.api()
    home.worker()
    home.start("webhooks")
    running = home.submit("{{tokens=400 tpot=50}} takes all there is")["id"]
    home.reaches(running, "in_progress")
    late = home.submit("never said", deadline_seconds=1, webhook={"url": receiver.url()})
    patient = home.submit("said in the end")["id"]
    assert (late["status"], late["queue"]["position"]) == ("queued", 0)
    job = home.ended(late["id"])
    assert (job["status"], job["error"]["code"], job["output"]) == ("failed", "deadline_exceeded", [])
    wait_until(lambda: receiver.received, what="its webhook")
    assert home.job(running)["status"] == "in_progress"
    assert home.job(patient)["queue"]["position"] == 0
    redis = home.redis()
    generation = redis.hget("ph:job:" + late["id"], "gen")
    assert redis.hget(f"ph:gen:{generation}", "started_at") is None
