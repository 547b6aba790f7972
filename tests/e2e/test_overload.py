"""Three times the capacity for a minute: full throughput, honest waits, quick refusals."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.support.door import KEY
from tests.support.stack import Stack
from tests.support.waiting import wait_until

SECONDS = 60
PLACES = 8
RUN_SECONDS = 0.5
CAPACITY = PLACES / RUN_SECONDS
CONFIG = f"""
[models.paced]
engine = "paced"
instances = 1
max_concurrency = {PLACES}
options = {{ ttft_ms = 100, tpot_ms = 20 }}
"""
BODY = {
    "model": "paced", "input": "w {{tokens=21}}", "background": True, "deadline_seconds": 5, "max_output_tokens": 21,
}  # fmt: skip

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Sent:
    status: int
    job_id: str
    eta: float | None
    seconds: float
    retry_after: int


@pytest.fixture
def stack() -> Iterator[Stack]:
    found = Stack(CONFIG)
    yield found
    assert found.stop() == 0


class Caller:
    """Sends at a steady pace over one connection."""

    def __init__(self, stack: Stack, every: float, until: float, sent: list[Sent]) -> None:
        self._netloc = urlsplit(stack.url).netloc
        self._every, self._until, self._sent = every, until, sent
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        connection = http.client.HTTPConnection(self._netloc, timeout=30)
        due = time.monotonic()
        while due < self._until:
            time.sleep(max(0, due - time.monotonic()))
            self._sent.append(self._send(connection))
            due += self._every
        connection.close()

    def _send(self, connection: http.client.HTTPConnection) -> Sent:
        began = time.monotonic()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/responses", json.dumps(BODY), headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        eta = answer.getheader("x-posthouse-eta")
        return Sent(
            answer.status, body.get("id", ""), None if eta is None else float(eta), time.monotonic() - began,
            int(answer.getheader("retry-after") or 0),
        )  # fmt: skip


@pytest.mark.timeout(300)
def test_overload_keeps_throughput_and_tells_the_truth(stack: Stack) -> None:
    sent: list[Sent] = []
    callers = 12
    until = time.monotonic() + SECONDS
    running = [Caller(stack, callers / (3 * CAPACITY), until, sent) for _ in range(callers)]
    for caller in running:
        caller.thread.join()
    redis = stack.redis()
    finished_in_time = int(redis.hget("ph:stats:paced", "completed") or 0)
    wait_until(lambda: not redis.zcard("ph:line:paced") and not redis.zcard("ph:running"), what="the line is empty")
    accepted = [s for s in sent if s.status == 200]
    refused = sorted(s.seconds for s in sent if s.status == 429)
    judged = [judge(stack, s) for s in accepted if s.eta is not None]
    statuses = redis.hgetall("ph:stats:paced")
    sys.stdout.write(
        f"\nsent {len(sent)}, accepted {len(accepted)}, refused {len(refused)}, "
        f"finished {finished_in_time / SECONDS:.1f}/s of {CAPACITY:.1f}/s, honest {sum(judged) / len(judged):.3f}, "
        f"refusals p99 {refused[int(len(refused) * 0.99)] * 1000:.0f} ms, {statuses}\n"
    )
    assert len(accepted) + len(refused) == len(sent)
    assert {s.retry_after for s in sent if s.status == 429} <= set(range(1, 6))
    assert finished_in_time >= 0.95 * CAPACITY * (SECONDS - RUN_SECONDS)
    assert sum(judged) >= 0.9 * len(judged)


def judge(stack: Stack, sent: Sent) -> bool:
    """Whether the wait that was told is within 30 % or half a second of the real one."""
    redis = stack.redis()
    gen_id = redis.hget(f"ph:job:{sent.job_id}", "gen")
    created, started = redis.hmget(f"ph:gen:{gen_id}", "created_at", "started_at")
    if started is None:
        return False
    real = (int(started) - int(created)) / 1000
    assert sent.eta is not None
    return abs(sent.eta - real) <= max(0.5, 0.3 * real)
