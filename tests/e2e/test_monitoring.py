"""The operators' window: closed without its password, and nothing in it that is the customers' own."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import urllib.parse
from typing import Any

import pytest

from app import settings as configuration
from app.queueing import create_celery
from tests.support.waiting import wait_until

PATHS = ["/", "/workers", "/tasks", "/broker", "/metrics", "/api/workers", "/api/tasks", "/api/queues/length"]


def flower(stack, method: str, path: str, *, password: bool = True) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(stack.flower_url).netloc, timeout=20)
    credentials = base64.b64encode(f"operator:{stack.secrets['flower_password']}".encode()).decode()
    try:
        connection.request(method, path, headers={"Authorization": f"Basic {credentials}"} if password else {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", [*PATHS, "/api/task/info/x", "/task/x"])
def test_the_window_is_closed_without_credentials(stack, path):
    assert flower(stack, "GET", path, password=False)[0] == 401


@pytest.mark.parametrize("path", ["/api/task/revoke/x", "/api/worker/shutdown/x", "/api/worker/pool/restart/x"])
def test_nobody_revokes_or_shuts_down_without_credentials(stack, path):
    assert flower(stack, "POST", path, password=False)[0] == 401
    assert stack.get("/readyz")[0] == 200


def test_the_bare_health_check_is_open(stack):
    assert flower(stack, "GET", "/healthcheck", password=False)[0] == 200


def running_task(stack, generation: str) -> str | None:
    """The id of the task that runs a generation, as Flower lists it."""
    status, body = flower(stack, "GET", "/api/tasks?limit=200")
    assert status == 200
    tasks: dict[str, dict[str, Any]] = json.loads(body)
    return next((id_ for id_, t in tasks.items() if generation in (t["args"] or "") and t["state"] == "STARTED"), None)


def test_revoking_a_running_task_in_the_window_cancels_its_job(stack):
    job_id = stack.submit("{{tokens=1500 tpot=20}}")["id"]
    stack.reaches(job_id, "in_progress")
    generation = stack.redis().hget(f"ph:job:{job_id}", "gen")
    task = wait_until(lambda: running_task(stack, generation), what="Flower lists the task", limit=20, every=0.2)

    status, body = flower(stack, "POST", f"/api/task/revoke/{task}?terminate=true")
    assert status == 200, body

    assert stack.ended(job_id, limit=10)["status"] == "cancelled"
    wait_until(lambda: all(i["in_flight"] == 0 for i in stack.pool()), what="the engine stops", limit=5)


def test_the_window_shows_which_generation_a_task_ran_and_how_it_ended(stack):
    job_id = stack.submit("show how it ended")["id"]
    stack.ended(job_id)
    generation = stack.redis().hget(f"ph:job:{job_id}", "gen")

    def report() -> str | None:
        tasks = json.loads(flower(stack, "GET", "/api/tasks?limit=200&state=SUCCESS")[1])
        return next((t["result"] for t in tasks.values() if generation in (t["result"] or "")), None)

    said = wait_until(report, what="Flower shows the task's report", limit=20, every=0.2)
    assert "completed" in said


class Events:
    """Records the raw task events of a stack, as any monitor gets them."""

    def __init__(self, url: str) -> None:
        self.seen: list[str] = []
        self._celery = create_celery(configuration.load(redis={"jobs_url": url}))
        self._connection = self._celery.connection()
        self._receiver = self._celery.events.Receiver(
            self._connection, handlers={"*": lambda event: self.seen.append(json.dumps(event, default=str))}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._receiver.capture(limit=None, timeout=None, wakeup=True)
        except OSError:
            return  # closed by the test

    def close(self) -> None:
        self._receiver.should_stop = True
        self._thread.join(10)


def test_prompts_answers_keys_and_secrets_are_nowhere_that_an_operator_looks(stack, receiver):
    marker, answer = "prompt-marker-8c1f", "answer-marker-77ab"
    key = stack.new_key("private")
    secret = stack.get("/v1/webhook_secret", key)[1]["secret"]
    events = Events(stack.redis_url)
    wait_until(lambda: any("worker-heartbeat" in e for e in events.seen), what="events come", limit=20)

    hook = {"url": receiver.url(f"/{marker}")}
    prompts = [f"{marker} {{{{text={answer}}}}}", f"{marker} {{{{tokens=30 tpot=50}}}}", f"{marker} {{{{crash}}}}"]
    jobs = [stack.submit(p, key=key, webhook=hook, metadata={"m": marker}, user=marker)["id"] for p in prompts]
    refused = stack.ask("POST", "/v1/responses", {"model": "paced", "input": marker, marker: 1}, key=key)
    assert refused.status == 400
    assert stack.ended(jobs[0], key=key)["status"] == "completed"
    stack.ended(jobs[1], key=key)
    stack.ended(jobs[2], key=key, limit=60)
    wait_until(lambda: len(receiver.received) == 3, what="the webhooks come", limit=60)
    generation = stack.redis().hget(f"ph:job:{jobs[0]}", "gen")
    wait_until(lambda: any(generation in event for event in events.seen), what="the events of the tasks", limit=20)
    events.close()

    task = next(iter(json.loads(flower(stack, "GET", "/api/tasks?limit=1")[1])))
    pages = [*PATHS, f"/task/{task}", f"/api/task/info/{task}", "/api/tasks?limit=1000", "/api/workers?refresh=1"]
    places = {path: flower(stack, "GET", path)[1].decode(errors="replace") for path in pages}
    places["events"] = "\n".join(events.seen)
    places["log"] = stack.text()
    places["metrics"] = stack.ask("GET", "/metrics").body.decode()
    places["pool"] = stack.ask("GET", "/admin/pool").body.decode()
    places["queues"] = "\n".join(str(stack.redis().lrange(q, 0, -1)) for q in ("gpu.paced", "webhooks"))
    for where, text in places.items():
        for word in (marker, answer, key, secret, secret.removeprefix("whsec_")):
            assert word not in text, f"{word} stands in {where}"
    assert generation in places["/api/tasks?limit=1000"]  # the search looked at something
    assert stack.redis().hget(f"ph:job:{jobs[2]}", "gen") in places["log"]
    assert len(places["metrics"]) > 500
