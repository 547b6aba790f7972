"""A house with one sick instance and models that nobody serves: breakers, dead letters, fallbacks, the busy reply."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import openai
import pytest

from tests.support import processes
from tests.support.events import chat_text, counting
from tests.support.house import House, Part
from tests.support.stack import POSTHOUSE
from tests.support.waiting import wait_until

BUSY = "All of us are busy; ask again soon."
# `away` and `silent` have no worker in this house. The health check stays out of the counts.
CONFIG = f"""
[models.paced]
engine = "paced"
max_concurrency = 8
policy = "least_loaded"
[models.away]
engine = "paced"
fallback = ["silent", "paced"]
[models.silent]
engine = "paced"
busy_reply = "{BUSY}"
[breaker]
minimum = 3
open_seconds = 1.5
[jobs]
busy_reply_seconds = 1
lease_seconds = 2
renew_seconds = 0.5
[health]
probe_seconds = 60
"""


@pytest.fixture(scope="module")
def whole() -> Iterator[House]:
    house = House(CONFIG)
    try:
        house.api()
        house.worker()
        yield house
    finally:
        house.close()


@pytest.fixture
def home(whole: House) -> House:
    """The house, with nothing counted by its breaker and its instance in the ring."""

    def well() -> bool:
        whole.ask("POST", "/admin/breakers/paced.0/reset", {})
        return whole.redis().lrange("ph:ring:paced", 0, -1) == ["paced.0"] and whole.pool()[0]["in_flight"] == 0

    wait_until(well, what="the instance is let through", limit=60, every=0.1)
    return whole


def breaker(home: House) -> dict:
    status, body = home.get("/admin/breakers")
    assert status == 200, body
    return next(each for each in body["data"] if each["name"] == "paced.0")


def serves(home: House) -> bool:
    """Whether readiness finds the model served; others in this house never are."""
    return not any("'paced'" in missing for missing in home.get("/readyz")[1]["missing"])


def command(home: House, *words: str) -> str:
    done = subprocess.run(
        [str(POSTHOUSE), *words], capture_output=True, text=True, check=True, env=home.env, cwd=home.folder, timeout=60
    )
    return done.stdout


def poison(home: House) -> str:
    """One request that fails on every attempt; all of them are spent."""
    job = home.submit("{{fail=500}}")["id"]
    ended = home.ended(job)
    assert (ended["status"], ended["error"]["code"], ended["attempts"]) == ("failed", "engine_error", 3)
    return job


def sicken(home: House) -> None:
    """As many different requests as the breaker wants to see meet a fault, each once; the engine answers on."""
    for _ in range(3):
        ended = home.ended(home.submit("{{oom}}")["id"])
        assert (ended["status"], ended["error"]["code"]) == ("failed", "engine_out_of_memory")
    wait_until(lambda: breaker(home)["state"] == "open", what="the breaker opens")


class Counting:
    """Looks at the engine all the time: the most generations at once, and all that were begun meanwhile."""

    def __init__(self, home: House) -> None:
        self._socket = home.socket()
        self._over = threading.Event()
        self.most = 0
        self._first = processes.engine_counts(self._socket)["started"]
        self._thread = threading.Thread(target=self._look)

    @property
    def begun(self) -> int:
        return int(processes.engine_counts(self._socket)["started"]) - self._first

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.01):
            self.most = max(self.most, processes.engine_counts(self._socket)["in_flight"])


def test_while_half_open_one_probe_of_the_whole_fleet_reaches_the_engine(home):
    sicken(home)
    assert home.pool()[0]["breaker"] == "open"
    wait_until(lambda: not serves(home), what="readiness misses the model")
    hanging = home.submit("{{hang=60}}")["id"]
    with Counting(home) as counts, ThreadPoolExecutor(8) as callers:
        end = time.monotonic() + 3
        jobs = []
        while time.monotonic() < end:
            jobs.append(callers.submit(home.submit, "{{tokens=2}}"))
            time.sleep(0.02)  # the pace of the callers: 50 a second
        home.reaches(hanging, "in_progress", limit=30)
        assert breaker(home)["state"] == "half_open"
        assert (counts.most, counts.begun) == (1, 1)
    assert home.ask("POST", f"/v1/responses/{hanging}/cancel", {}).status == 200
    ended = [home.ended(job.result()["id"], limit=60) for job in jobs]
    assert {job["status"] for job in ended} == {"completed"}
    wait_until(lambda: breaker(home)["state"] == "closed", what="the breaker closes")


PROBE_ENDS = {
    "its deadline passes": None,
    "its caller cancels it": lambda home, job: home.ask("POST", f"/v1/responses/{job}/cancel", {}),
    "its engine dies": lambda home, _: os.kill(home.engine_pid(the_worker(home)), signal.SIGKILL),
    "its worker is killed": lambda home, _: replace_worker(home),
}


def the_worker(home: House) -> Part:
    return next(part for part in reversed(home.parts) if part.status is None and "worker" in part.log.name)


def replace_worker(home: House) -> None:
    the_worker(home).signal(signal.SIGKILL)
    home.worker()


def claim_of(home: House, job: str) -> str | None:
    """The fencing token of who runs a job now; None while nobody does."""
    generation = home.redis().hget(f"ph:job:{job}", "gen")
    owner, fence = home.redis().hmget(f"ph:gen:{generation}", "owner", "fence")
    return fence if owner else None


@pytest.mark.parametrize("way", PROBE_ENDS)
def test_a_probes_place_is_free_again_however_it_ends(home, way):
    sicken(home)
    probe = home.submit("{{hang=60}}", deadline_seconds=6 if PROBE_ENDS[way] is None else 120)["id"]
    home.reaches(probe, "in_progress", limit=30)
    waiting = home.submit("{{tokens=2}}")["id"]
    assert (breaker(home)["state"], breaker(home)["probes"]) == ("half_open", 1)
    claimed = claim_of(home, probe)
    if PROBE_ENDS[way] is not None:
        PROBE_ENDS[way](home, probe)
    if "dies" in way or "killed" in way:  # it is tried again, first, which takes the one place anew
        wait_until(lambda: claim_of(home, probe) not in {claimed, None}, what="the probe is tried again", limit=60)
        home.ask("POST", f"/v1/responses/{probe}/cancel", {})
    assert home.text_of(home.ended(waiting, limit=60)) == counting(2)
    assert home.job(probe)["status"] in {"failed", "cancelled"}
    wait_until(lambda: breaker(home)["state"] == "closed", what="the breaker closes")


def test_requests_that_fail_however_often_they_are_tried_open_no_breaker(home):
    """Fewer of them than the breaker wants to see, though each fails on every attempt; the next one need not wait."""
    for _ in range(2):
        poison(home)
    assert (breaker(home)["state"], breaker(home)["faults"]) == ("closed", 2)
    assert serves(home)
    assert home.text_of(home.ended(home.submit("fine")["id"])) == "fine"


def test_poison_ends_among_the_dead_letters_and_can_be_tried_again(home):
    job = poison(home)
    letters = home.get("/admin/jobs?status=dead")[1]["data"]
    found = next(each for each in letters if each["id"] == job)
    assert (found["model"], found["code"], found["tenant"], found["attempts"]) == ("paced", "engine_error", "dev", 3)
    assert job in command(home, "jobs", "dead")
    assert home.ask("POST", "/admin/breakers/paced.0/reset", {}).json["state"] == "closed"
    assert home.ask("POST", f"/admin/jobs/{job}/retry", {}).json == {"id": job, "status": "queued"}
    again = home.ended(job, limit=60)
    assert (again["status"], again["attempts"]) == ("failed", 3)
    good = home.submit("fine")["id"]
    home.ended(good, limit=60)
    assert home.ask("POST", f"/admin/jobs/{good}/retry", {}).json["error"]["code"] == "not_a_dead_letter"
    assert home.ask("GET", "/admin/jobs").status == 400


def test_operators_see_and_reset_breakers_on_the_command_line(home):
    sicken(home)
    assert "paced.0" in command(home, "breakers")
    command(home, "breakers", "reset", "paced.0")
    assert breaker(home)["state"] == "closed"
    assert home.text_of(home.ended(home.submit("well again")["id"])) == "well again"
    assert home.ask("POST", "/admin/breakers/nobody.0/reset", {}).status == 404
    assert 'posthouse_breakers{model="paced",state="closed"} 1.0' in home.ask("GET", "/metrics").body.decode()


def test_an_engine_that_fails_different_requests_in_a_row_is_replaced(home):
    def pid() -> str | None:
        return home.redis().hget("ph:instance:paced.0", "pid")

    before = pid()
    for _ in range(3):
        poison(home)
        home.ask("POST", "/admin/breakers/paced.0/reset", {})
    wait_until(lambda: pid() not in {before, "0", None}, what="another process serves", limit=60)
    assert home.text_of(home.ended(home.submit("well again")["id"], limit=60)) == "well again"


def test_workers_tell_by_which_policy_hints_are_passed_on(home):
    assert home.redis().hget("ph:instance:paced.0", "policy") == "least_loaded"


def test_out_of_memory_fails_that_request_and_not_the_next(home):
    sick = home.ended(home.submit("{{oom}}")["id"])
    assert (sick["status"], sick["error"]["code"], sick["attempts"]) == ("failed", "engine_out_of_memory", 1)
    assert home.ended(home.submit("fine")["id"])["status"] == "completed"


def test_a_fallback_answers_at_once_under_the_name_that_was_asked_for(home):
    chat = home.client().chat.completions.create(
        model="away", messages=[{"role": "user", "content": "{{tokens=5}}"}], extra_body={"temperature": 0}
    )
    assert (chat.choices[0].message.content, chat.model, chat.model_extra["degraded"]) == (counting(5), "away", True)
    events = list(home.client().responses.create(model="away", input="{{tokens=5}}", stream=True))
    done = events[-1].response
    assert (done.output_text, done.model, done.degraded) == (counting(5), "away", True)
    assert home.ended(home.submit("{{tokens=5}}")["id"])["degraded"] is False


def test_a_chat_that_nobody_can_answer_gets_the_busy_reply(home):
    ask = {"model": "silent", "messages": [{"role": "user", "content": "hello"}]}
    client = home.client()
    chat = client.chat.completions.create(**ask)
    assert (chat.choices[0].message.content, chat.choices[0].finish_reason) == (BUSY, "stop")
    assert (chat.model, chat.model_extra["degraded"]) == ("silent", True)
    chunks = list(client.chat.completions.create(**ask, stream=True))
    assert chat_text(chunks) == BUSY
    assert chunks[-1].model_extra["degraded"] is True


def test_what_is_no_chat_waits_and_ends_as_unavailable_at_its_deadline(home):
    with pytest.raises(openai.InternalServerError) as refused:
        home.client().responses.create(model="silent", input="hello", extra_body={"deadline_seconds": 2})
    assert (refused.value.status_code, refused.value.code) == (503, "model_unavailable")


def test_a_dead_and_a_hung_instance_get_a_bounded_number_of_tries_and_nothing_is_lost(stack, freeze):
    capacity, threshold = 8, 5
    os.kill(stack.engine_pid(slot=0), signal.SIGKILL)
    freeze(stack.engine_pid(slot=1))
    jobs = [stack.submit("{{tokens=3}}")["id"] for _ in range(60)]
    ended = [stack.ended(job, limit=90) for job in jobs]
    assert {(job["status"], stack.text_of(job)) for job in ended} == {("completed", counting(3))}
    assert sum(job["attempts"] - 1 for job in ended) <= 2 * (capacity + threshold)
