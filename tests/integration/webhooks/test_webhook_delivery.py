"""What a receiver can rely on: one event in effect, signed, identical on every attempt, whatever fails on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import redis
from standardwebhooks import Webhook

from app.webhooks.backoff import Schedule
from tests.support.courier import LIMITS, Office, office
from tests.support.receiver import Listener, Reply, always
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until


def until_settled(post: Office) -> None:
    wait_until(lambda: post.deliver() and not post.client.exists("ph:outbox", "ph:deliveries:due"), what="all settled")


def test_a_webhook_arrives_once_and_verifies(post: Office, receive):
    receiver = receive()
    job = post.end_job(receiver.url(), metadata={"emoji": "👩‍👧 <&>\u2028"})
    assert post.deliver() == {"fanned_out": 1, "delivered": 1}
    assert post.deliver() == {"fanned_out": 0}
    (got,) = receiver.received
    event = Webhook(post.secrets.get_or_create("t")).verify(got.body, got.headers)
    assert (event["type"], event["data"]["id"]) == ("response.cancelled", job)
    assert event["data"]["metadata"] == {"emoji": "👩‍👧 <&>\u2028"}
    assert (event["id"], got.headers["content-type"]) == (got.headers["webhook-id"], "application/json")
    assert post.record()["state"] == "delivered"


def test_retries_keep_id_and_bytes_and_carry_fresh_timestamps(post: Office, receive):
    moments = iter([1_700_000_000.0, 1_700_000_100.0, 1_700_000_200.0])
    post.courier = replace(post.courier, clock=lambda: next(moments))
    receiver = receive(lambda n: Reply(500 if n < 2 else 200))
    post.end_job(receiver.url())
    until_settled(post)
    got = receiver.received
    assert len(got) == 3
    assert len({r.headers["webhook-id"] for r in got}) == 1
    assert len({r.body for r in got}) == 1
    assert [r.headers["webhook-timestamp"] for r in got] == ["1700000000", "1700000100", "1700000200"]
    assert len({r.headers["webhook-signature"] for r in got}) == 3
    assert (post.record()["state"], post.record()["attempt"]) == ("delivered", "3")


def test_the_old_secret_signs_along_when_it_is_replaced_between_attempts(post: Office, receive):
    receiver = receive(lambda n: Reply(500 if n < 1 else 200))
    post.end_job(receiver.url())
    post.deliver()
    old = post.secrets.get_or_create("t")
    new = post.secrets.rotate("t")
    until_settled(post)
    last = receiver.received[-1]
    for secret in (old, new):
        Webhook(secret).verify(last.body, last.headers)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(post: Office, receive, internal: Listener, status: int):
    receiver = receive(always(Reply(status, {"Location": f"http://127.0.0.1:{internal.port}/"})))
    post.end_job(receiver.url())
    assert post.deliver()["retry"] == 1
    until_settled(post)
    assert internal.connections() == 0
    assert len(receiver.received) == 6
    assert (post.record()["state"], post.record()["last_status"]) == ("dead", str(status))


def test_a_redirect_to_itself_is_one_request_per_attempt(post: Office, receive):
    receiver = receive(always(Reply(302, {"Location": "/hook"})))
    post.end_job(receiver.url())
    post.deliver()
    assert len(receiver.received) == 1


def test_a_hanging_receiver_is_given_up_and_tried_again(redis_url: str, receive):
    post = office(redis_url)
    receiver = receive(lambda n: Reply(hang=n < 1))
    post.end_job(receiver.url())
    assert post.deliver()["retry"] == 1
    assert post.record()["last_error"] == "timeout"
    until_settled(post)
    assert post.record()["state"] == "delivered"
    assert len(receiver.received) == 2


def test_an_endless_or_huge_answer_is_cut_off_and_its_status_counts(post: Office, receive):
    receiver = receive(always(Reply(200, body=b"x" * 20_000_000)))
    trickling = receive(always(Reply(200, body=b"x", trickle=True)))
    post.end_job(receiver.url())
    post.end_job(trickling.url())
    assert post.deliver()["delivered"] == 2


def test_a_compressed_answer_is_not_unpacked(post: Office, receive):
    receiver = receive(always(Reply(200, {"Content-Encoding": "gzip"}, b"not gzip at all")))
    post.end_job(receiver.url())
    assert post.deliver()["delivered"] == 1


def test_gone_ends_at_once_as_a_dead_letter(post: Office, receive):
    receiver = receive(always(Reply(410)))
    post.end_job(receiver.url())
    assert post.deliver()["dead"] == 1
    assert post.client.zcard("ph:deliveries:dead:t") == 1
    assert post.deliver() == {"fanned_out": 0}
    assert len(receiver.received) == 1


def test_retry_after_is_waited_for(redis_url: str, receive):
    post = office(redis_url, schedule=Schedule(first=0.01, longest=3600, max_attempts=5))
    receiver = receive(always(Reply(503, {"Retry-After": "1800"})))
    post.end_job(receiver.url())
    post.deliver()
    ((_, due),) = post.client.zrange("ph:deliveries:due", 0, 0, withscores=True)
    now = int(post.client.time()[0]) * 1000
    assert 1_700_000 < due - now <= 1_801_000


def test_a_killed_workers_delivery_is_sent_again_with_the_same_id(post: Office, receive, redis_url: str):
    receiver = receive(lambda n: Reply(hang=n < 1))
    post.end_job(receiver.url())
    worker = subprocess.Popen([sys.executable, "-m", "tests.support.deliver_once", redis_url])
    wait_until(lambda: receiver.received, what="the first attempt is under way")
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    assert post.deliver() == {"fanned_out": 0}, "the claim holds until its lease ends"
    until_settled(post)
    assert len(receiver.received) == 2
    assert len({r.headers["webhook-id"] for r in receiver.received}) == 1
    assert post.record()["state"] == "delivered"


def test_a_redis_that_dies_during_an_attempt_costs_a_repetition_and_no_event(own_redis: RedisProcess, receive):
    post = office(own_redis.url())

    def behaviour(number: int) -> Reply:
        if number == 0:
            own_redis.kill()
        return Reply(200)

    receiver = receive(behaviour)
    post.end_job(receiver.url())
    with pytest.raises(redis.ConnectionError):
        post.deliver()
    own_redis.start()
    until_settled(post)
    assert len(receiver.received) == 2
    assert len({r.headers["webhook-id"] for r in receiver.received}) == 1
    assert post.record()["state"] == "delivered"


def test_a_slow_receiver_delays_no_other(redis_url: str, receive):
    post = office(redis_url, limits=replace(LIMITS, attempt_timeout=30))
    slow = receive(always(Reply(hang=True)))
    quick = [receive() for _ in range(9)]
    for _ in range(40):
        post.end_job(slow.url())
    for receiver in quick:
        for _ in range(5):
            post.end_job(receiver.url())
    run = threading.Thread(target=post.deliver)
    run.start()
    wait_until(
        lambda: all(len(r.received) == 5 for r in quick), what="nine quick receivers have their events", limit=60
    )
    assert len(slow.received) <= 2, "the slow receiver's first attempts are still under way"
    slow.closing.set()
    run.join(60)
    assert not run.is_alive()


def test_two_runs_at_once_send_nothing_twice(redis_url: str, receive):
    receiver = receive()
    offices = [office(redis_url), office(redis_url)]
    for _ in range(30):
        offices[0].end_job(receiver.url())
    runs = [threading.Thread(target=o.deliver) for o in offices]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    ids = [r.headers["webhook-id"] for r in receiver.received]
    assert len(ids) == len(set(ids)) == 30


def test_a_second_run_in_the_same_process_leaves_at_once(post: Office, receive):
    receiver = receive(lambda n: Reply(hang=n < 1))
    post.end_job(receiver.url())
    run = threading.Thread(target=post.deliver)
    run.start()
    wait_until(lambda: receiver.received, what="the first run is at work")
    assert post.deliver() == {"already_draining": 1}
    run.join(60)


def test_a_stopping_worker_takes_nothing_new(post: Office, receive):
    receiver = receive()
    post.end_job(receiver.url())
    assert post.deliver(stopping=lambda: True) == {}
    assert receiver.received == []
    assert post.deliver()["delivered"] == 1


def test_the_retries_outlive_the_job(post: Office, receive):
    receiver = receive(lambda n: Reply(500 if n < 1 else 200))
    job = post.end_job(receiver.url())
    post.deliver()
    post.client.delete(f"ph:job:{job}")
    until_settled(post)
    assert post.record()["state"] == "delivered"


def test_only_the_events_that_were_asked_for_are_sent(post: Office, receive):
    receiver = receive()
    post.end_job(receiver.url(), events=("response.completed",))
    wanted = post.end_job(receiver.url(), events=("response.failed", "response.cancelled"))
    post.deliver()
    assert [json.loads(r.body)["data"]["id"] for r in receiver.received] == [wanted]


def test_the_log_names_host_and_status_and_no_secret(post: Office, receive, capsys: pytest.CaptureFixture[str]):
    receiver = receive()
    post.end_job(receiver.url("/hook?token=mark-query"), metadata={"k": "mark-body"})
    secret = post.secrets.get_or_create("t")
    post.deliver()
    logged = capsys.readouterr()
    text = logged.out + logged.err
    assert f"127.0.0.1:{receiver.port}" in text
    assert "webhook_attempt" in text
    assert not [mark for mark in ("mark-query", "mark-body", secret) if mark in text]
