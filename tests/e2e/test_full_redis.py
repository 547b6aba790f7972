"""The jobs Redis is full for a while: submits say so, what runs and waits goes on once there is room."""

from __future__ import annotations

import pytest

from tests.support import processes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CONFIG = """
[models.paced]
engine = "paced"
max_concurrency = 4
options = { ttft_ms = 20, tpot_ms = 40 }
"""


def test_work_outlives_a_redis_without_room(house):
    home = house(CONFIG)
    home.api()
    home.worker()
    jobs = [home.submit("a b c {{tokens=50}}")["id"] for _ in range(8)]
    wait_until(lambda: home.redis().zcard("ph:running") == 4, what="four run")
    redis = home.redis()
    redis.config_set("maxmemory", 100 * 1024)
    try:
        for _ in range(3):
            refused = home.ask("POST", "/v1/responses", {"model": "paced", "input": "x", "background": True})
            assert (refused.status, refused.json["error"]["code"]) == (503, "storage_full")
        wait_until(lambda: processes.engine_counts(home.socket())["finished"] >= 4, what="the engine is done with four")
        assert redis.zcard("ph:running") == 4  # their ends wait for room
    finally:
        redis.config_set("maxmemory", 0)
    ended = [home.ended(job_id, limit=60) for job_id in jobs]
    assert {job["status"] for job in ended} == {"completed"}
    assert {len(home.text_of(job).split()) for job in ended} == {50}
    assert home.ended(home.submit("again")["id"], limit=60)["status"] == "completed"
