"""The worker process: the pool that works and no other, no GPU memory in it, limits that hold, faults that show."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support import processes
from tests.support.events import counting
from tests.support.house import House
from tests.support.waiting import wait_until

LIMITED = """
[models.paced]
engine = "paced"
max_concurrency = 1
[jobs]
longest_run_seconds = 3
[health]
probe_timeout_seconds = 1
backoff_seconds = 0.1
[webhooks]
allow_hosts = ["127.0.0.1"]
"""


@pytest.fixture(scope="module")
def limited() -> Iterator[House]:
    """One instance with one place, where a run may last 3 s."""
    home = House(LIMITED)
    try:
        home.api()
        home.worker()
        home.start("webhooks")
        yield home
    finally:
        home.close()


@pytest.mark.parametrize("pool", ["prefork", "solo", "gevent"])
def test_a_pool_that_cannot_work_is_refused(house, pool):
    home = house()
    command = [sys.executable, "-m", "celery", "--app", "workers.main", "worker", "--pool", pool, "--concurrency", "1"]
    ended = subprocess.run(
        [*command, "--queues", "gpu.paced"], env={**home.env, "POSTHOUSE_WORKER__MODEL": "paced"}, cwd=home.folder,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "--pool threads" in ended.stdout + ended.stderr
    assert not home.socket().exists(), "an engine was started"


@pytest.mark.parametrize("module", ["app.wsgi", "workers.main"])
def test_importing_the_api_and_the_tasks_touches_no_accelerator(house, module):
    """Neither a library that could hold a CUDA context nor the driver itself is in the process afterwards."""
    program = (
        f"import sys, {module}\n"
        "print(sorted({'torch', 'vllm', 'transformers', 'numpy', 'tensorflow'} & set(sys.modules)))\n"
        "print([line for line in open('/proc/self/maps') if 'cuda' in line.lower() or 'nvidia' in line.lower()])"
    )
    env = {**house().env, "POSTHOUSE_WORKER__MODEL": "paced"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-2:] == ["[]", "[]"]


def test_a_worker_whose_engine_is_misconfigured_leaves_instead_of_failing_jobs(house):
    home = house('[models.paced]\nengine = "paced"\noptions = { pace = 3 }\n')
    home.api()
    waiting = home.submit("hello")["id"]
    worker = home.begin_worker()
    assert worker.wait(120) not in {0, None}
    assert "pace" in worker.text()
    assert (home.job(waiting)["status"], home.job(waiting)["attempts"]) == ("queued", 0)


@pytest.mark.parametrize("fault", ["hang=60", "spin=60"])
def test_a_run_that_takes_too_long_is_ended_and_its_place_is_free_again(limited, receiver, fault):
    home = limited
    stuck = home.submit(f"{{{{{fault}}}}}", webhook={"url": receiver.url()})["id"]
    home.reaches(stuck, "in_progress")
    began = time.monotonic()
    following = home.submit("{{tokens=5}}")["id"]

    job = home.ended(stuck, limit=5)

    assert time.monotonic() - began < 5
    assert (job["status"], job["error"]["code"]) == ("failed", "timeout")
    assert home.text_of(home.ended(following, limit=20)) == counting(5)
    assert processes.engine_counts(home.socket())["in_flight"] == 0, "the engine still works at it"
    wait_until(lambda: receiver.received, what="the webhook comes")
    wait_until(lambda: not home.redis().exists("ph:outbox", "ph:deliveries:due"), what="there is no more to send")
    assert [b'"type":"response.failed"' in r.body for r in receiver.received] == [True]


def test_a_run_that_speaks_for_too_long_is_ended_too(limited):
    home = limited
    talker = home.submit("{{tokens=2000 tpot=20}}")["id"]
    job = home.ended(talker, limit=10)
    assert (job["status"], job["error"]["code"]) == ("failed", "timeout")
    assert counting(2000).startswith(home.text_of(job))
    assert len(home.text_of(job)) > 100  # what was said stays readable
    wait_until(lambda: home.pool()[0]["in_flight"] == 0, what="the engine is free", limit=5)
