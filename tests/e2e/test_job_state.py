"""What is known of a job is what its record says: nothing is made up, nothing is forgotten."""

from __future__ import annotations

import secrets

import pytest

from tests.support.house import PACED
from tests.support.waiting import wait_until

SINGLE = PACED.replace("max_concurrency = 16", "max_concurrency = 1") + '\n[webhooks]\nallow_hosts = ["127.0.0.1"]\n'


@pytest.fixture
def two_keys(stack) -> tuple[str, str]:
    return stack.new_key("one"), stack.new_key("two")


@pytest.mark.parametrize(
    "job_id",
    ["resp_" + "0" * 32, "resp_short", "chatcmpl-" + "0" * 32, "nonsense", "resp_" + "G" * 32, "%00", "a" * 3000],
)
def test_an_unknown_job_is_not_found(stack, job_id):
    for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "?stream=true&starting_after=0")):
        where = f"/v1/responses/{job_id}{path}"
        answer = stack.ask(method, where, b"" if method == "POST" else None)
        assert answer.status == 404, (method, where, answer)
        assert answer.json["error"]["code"] in {"job_not_found", "not_found"}


def test_another_tenants_job_does_not_exist(stack, two_keys):
    mine, theirs = two_keys
    job_id = stack.submit("mine alone", key=mine)["id"]
    for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "?stream=true")):
        answer = stack.ask(method, f"/v1/responses/{job_id}{path}", b"" if method == "POST" else None, key=theirs)
        assert (answer.status, answer.json["error"]["code"]) == (404, "job_not_found")
    assert stack.ended(job_id, key=mine)["status"] == "completed"


def test_a_job_past_its_retention_is_not_found(stack):
    job_id = stack.submit("soon gone", store=False, deadline_seconds=1)["id"]
    assert stack.job(job_id)["id"] == job_id
    wait_until(lambda: stack.get(f"/v1/responses/{job_id}")[0] == 404, what="the job has aged out", limit=10)


def test_a_just_accepted_job_is_queued_and_polls_of_unknown_ones_cost_little(house):
    home = house()
    home.api()  # and nobody who would run anything
    job_id = home.submit("just accepted")["id"]
    assert home.job(job_id)["status"] == "queued"

    redis = home.redis()
    keys, commands = redis.dbsize(), redis.info("stats")["total_commands_processed"]
    with home.client(max_retries=0) as client:
        session = client._client  # one connection for all
        for _ in range(1000):
            answer = session.get(
                f"{home.url}/v1/responses/resp_{secrets.token_hex(16)}",
                headers={"Authorization": "Bearer ph_test_key"},
            )
            assert answer.status_code == 404
    assert redis.dbsize() == keys
    used = redis.info("stats")["total_commands_processed"] - commands
    assert used < 5 * 1000, f"{used} Redis commands for 1,000 polls of unknown jobs"


def test_a_cancel_without_workers_is_not_forgotten(house, receiver):
    home = house(SINGLE)
    home.api()
    job_id = home.submit("never run", webhook={"url": receiver.url()})["id"]
    assert home.ask("POST", f"/v1/responses/{job_id}/cancel", b"").json["status"] == "cancelled"
    assert home.job(job_id)["status"] == "cancelled"

    home.worker()
    home.start("webhooks")
    later = home.submit("run after it")["id"]

    assert home.ended(later)["status"] == "completed"
    assert home.job(job_id)["status"] == "cancelled"
    assert home.job(job_id)["attempts"] == 0
    assert home.generations()["started"] <= 1
    wait_until(lambda: receiver.received, what="the webhook comes")
    wait_until(lambda: not home.redis().exists("ph:outbox", "ph:deliveries:due"), what="nothing is left to send")
    assert [b'"type":"response.cancelled"' in r.body for r in receiver.received] == [True]


def test_a_cancel_of_a_waiting_job_outlives_its_worker(house):
    home = house(SINGLE + "[jobs]\ndrain_grace_seconds = 0.2\n")
    home.api()
    worker = home.worker()
    running = home.submit("{{tokens=60 tpot=30}}")["id"]
    home.reaches(running, "in_progress")
    waiting = home.submit("never run")["id"]
    assert home.ask("POST", f"/v1/responses/{waiting}/cancel", b"").json["status"] == "cancelled"

    assert worker.terminate() == 0
    home.worker()

    assert home.ended(running)["status"] == "completed"
    assert home.ended(home.submit("after")["id"])["status"] == "completed"
    assert home.job(waiting)["status"] == "cancelled"
    assert home.job(waiting)["attempts"] == 0
