"""Messages are hints: lost, doubled or late, they change nothing about which jobs run and how often."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from pathlib import Path

import pytest

from app import settings as configuration
from app.hints import Hints
from app.queueing import create_celery
from tests.support.door import KEY
from tests.support.events import counting
from tests.support.stack import POSTHOUSE, environment
from tests.support.waiting import wait_until

SINGLE = """
[models.paced]
engine = "paced"
max_concurrency = 1
options = { tpot_ms = 20 }
[jobs]
lease_seconds = 2
renew_seconds = 0.5
drain_grace_seconds = 0.3
"""
TOO_SHORT = """
[models.paced]
engine = "paced"
[jobs]
longest_run_seconds = 20
visibility_timeout_seconds = 5
"""


@pytest.mark.parametrize("command", [["up"], ["api"], ["worker", "paced"], ["webhooks"]], ids=lambda c: c[0])
def test_a_visibility_timeout_within_the_longest_run_is_refused_at_start(tmp_path, command):
    (tmp_path / "posthouse.toml").write_text(TOO_SHORT)
    ended = subprocess.run(
        [str(POSTHOUSE), *command],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0
    said = ended.stdout + ended.stderr
    assert "jobs.visibility_timeout_seconds is 5" in said
    assert "at least 80" in said
    assert "Traceback" not in said


def test_a_second_delivery_of_a_running_job_starts_nothing(stack, receiver):
    before = stack.generations()
    tokens = int(stack.redis().hget("ph:stats:paced", "tokens_out") or 0)
    job_id = stack.submit("{{tokens=100 tpot=20}}", webhook={"url": receiver.url()})["id"]
    stack.reaches(job_id, "in_progress")
    generation = stack.redis().hget(f"ph:job:{job_id}", "gen")

    task, instance = stack.redis().hmget(f"ph:gen:{generation}", "task", "instance")
    hints = Hints(stack.redis())
    for slot in (None, 0, 1, 2):
        assert hints.publish_run("paced", generation, slot)
    celery = create_celery(configuration.load(redis={"jobs_url": stack.redis_url}))
    # The very message again, to the very worker: what the broker does once the visibility timeout is over.
    celery.send_task("posthouse.run", args=["paced", generation], queue=f"gpu.{instance}", task_id=task)

    job = stack.ended(job_id)
    assert (job["status"], stack.text_of(job), job["attempts"]) == ("completed", counting(100), 1)
    wait_until(lambda: queue_is_empty(stack), what="every delivery has been taken")
    wait_until(lambda: stack.generations()["finished"] == before["finished"] + 1, what="the pool counts one more")
    assert stack.generations()["started"] == before["started"] + 1
    assert len(ends(stack, generation)) == 1
    assert int(stack.redis().hget("ph:stats:paced", "tokens_out")) == tokens + 100
    wait_until(lambda: receiver.received, what="the webhook comes")
    wait_until(lambda: not stack.redis().exists("ph:deliveries:due"), what="no delivery is due")
    assert len({r.headers["webhook-id"] for r in receiver.received}) == 1


def queue_is_empty(stack) -> bool:
    names = ("gpu.paced", "gpu.paced.0", "gpu.paced.1", "gpu.paced.2")
    return sum(stack.redis().llen(name) for name in names) == 0


def ends(stack, generation: str) -> list[str]:
    entries = stack.redis().xrange(f"ph:gen:{generation}:log")
    return [fields["e"] for _, fields in entries if '"k":"end"' in fields["e"]]


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_jobs_flow_through_workers_that_come_and_go(house):
    """50 jobs, one place; five workers leave by SIGTERM and one is killed: every job ends once, whole."""
    home = house(SINGLE)
    home.api()
    worker = home.worker()
    jobs = [home.submit("{{tokens=12}}")["id"] for _ in range(50)]
    done = itertools.count(6, 6)
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGTERM, signal.SIGTERM):
        enough = next(done)
        wait_until(lambda least=enough: completed(home) >= least, what=f"{enough} jobs have ended", limit=60)
        worker.signal(number)
        assert worker.wait(30) == (0 if number == signal.SIGTERM else -signal.SIGKILL), worker.text()[-2000:]
        worker = home.begin_worker()

    ended = [home.ended(job, limit=60) for job in jobs]
    assert [job["status"] for job in ended] == ["completed"] * 50
    assert {home.text_of(job) for job in ended} == {counting(12)}
    assert completed(home) == 50


def completed(home) -> int:
    return int(home.redis().hget("ph:stats:paced", "completed") or 0)


@pytest.mark.slow
def test_a_worker_hands_back_what_does_not_end_within_its_grace(house):
    home = house(SINGLE)
    home.api()
    worker = home.worker()
    held = home.submit("{{tokens=200 tpot=30}}")["id"]
    home.reaches(held, "in_progress")
    waiting = home.submit("{{tokens=3}}")["id"]

    assert worker.terminate(20) == 0

    assert home.job(held)["status"] == "in_progress"  # it keeps what it has said, and waits for another worker
    assert home.job(waiting)["status"] == "queued"
    home.worker()
    assert home.text_of(home.ended(held)) == counting(200)
    assert home.text_of(home.ended(waiting)) == counting(3)
    assert home.job(held)["attempts"] == 1  # a drain is no attempt


def test_a_second_sigterm_is_obeyed_at_once(house):
    home = house(SINGLE.replace("drain_grace_seconds = 0.3", "drain_grace_seconds = 300"))
    home.api()
    worker = home.worker()
    job_id = home.submit("{{tokens=2000 tpot=30}}")["id"]
    home.reaches(job_id, "in_progress")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "draining" in worker.text(), what="the drain begins")
    worker.signal(signal.SIGTERM)
    assert worker.wait(20) == 0


def test_a_job_that_kills_its_engine_does_not_take_the_others_with_it(stack):
    """Three instances, one poison job: it fails after three attempts, twenty others are answered."""
    restarts = stack.text().count("instance_restarting")
    dead = stack.redis().zcard("ph:dead")
    poison = stack.submit("{{crash}}")["id"]
    others = [stack.submit("{{tokens=30 tpot=10}}")["id"] for _ in range(20)]

    job = stack.ended(poison, limit=60)

    assert job["status"] == "failed"
    assert job["error"]["code"] == "worker_lost"
    assert job["attempts"] == 3
    assert [stack.text_of(stack.ended(each)) for each in others] == [counting(30)] * 20
    assert stack.redis().zcard("ph:dead") == dead + 1
    letters = {letter["id"]: letter for letter in stack.get("/admin/jobs?status=dead")[1]["data"]}
    assert (letters[poison]["code"], letters[poison]["attempts"]) == ("worker_lost", 3)
    assert stack.text().count("instance_restarting") - restarts <= 3


def test_a_job_gets_as_many_attempts_as_are_configured(house):
    home = house(SINGLE + "max_attempts = 2\n[health]\nbackoff_seconds = 0.1\n")
    home.api()
    home.worker()
    job = home.ended(home.submit("{{crash}}")["id"], limit=60)
    assert (job["status"], job["error"]["code"], job["attempts"]) == ("failed", "worker_lost", 2)
    assert home.text_of(home.ended(home.submit("{{tokens=3}}")["id"], limit=60)) == counting(3)


def test_a_worker_that_is_killed_takes_its_engine_along(stack):
    engine = stack.engine_pid(slot=1)
    os.kill(stack.pid_of("gpu.paced.1"), signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{engine}").exists(), what="the engine is gone", limit=10)
    assert stack.get("/healthz", KEY)[0] == 200
