"""The most urgent tier starts next, from the request's field to the engine; nothing else is taken for a tier."""

from __future__ import annotations

import pytest

from tests.support.house import PACED

SINGLE = PACED.replace("max_concurrency = 16", "max_concurrency = 1")


def test_a_priority_job_starts_before_ten_that_came_earlier(house):
    home = house(SINGLE)
    home.api()
    home.worker()
    running = home.submit("{{tokens=60 tpot=50}} already running", service_tier="flex")["id"]
    home.reaches(running, "in_progress")
    patient = [home.submit(f"number {n} in line", service_tier="flex")["id"] for n in range(10)]
    urgent = home.submit("the last to come", service_tier="priority")
    assert (urgent["service_tier"], urgent["queue"]["position"]) == ("priority", 0)

    for job_id in (*patient, urgent["id"]):
        assert home.ended(job_id)["status"] == "completed"
    redis = home.redis()
    began = {job: int(redis.hget(f"ph:gen:{redis.hget(f'ph:job:{job}', 'gen')}", "started_at")) for job in patient}
    mine = int(redis.hget(f"ph:gen:{redis.hget('ph:job:' + urgent['id'], 'gen')}", "started_at"))
    assert mine < min(began.values())
    assert sorted(patient, key=began.__getitem__) == patient


@pytest.mark.parametrize("tier", [-1, 10, 50, 2.5, "high", "PRIORITY", "", True, ["priority"]])
def test_what_is_no_tier_is_refused_and_never_taken_for_the_most_urgent(stack, tier):
    for path, body in (
        ("/v1/responses", {"input": "x", "background": True}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    ):
        refused = stack.ask("POST", path, {"model": "paced", "service_tier": tier, **body})
        assert (refused.status, refused.json["error"]["param"]) == (400, "service_tier")
        unknown = stack.ask("POST", path, {"model": "paced", "priority": tier, **body})
        assert (unknown.status, unknown.json["error"]["param"]) == (400, "priority")
