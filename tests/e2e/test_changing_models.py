"""Models are added, removed and changed in a running house, and no request fails."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.support.events import counting, numbers, text
from tests.support.flow import Flow
from tests.support.stack import POSTHOUSE, Stack, environment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)  # each starts several workers one after another

HEAD = """
[jobs]
drain_grace_seconds = 20

[redis]
jobs_timeout = 10  # a busy machine is not what is asked about here

[health]
start_seconds = 120
"""
PACED = """
[models.paced]
engine = "paced"
instances = {instances}
max_concurrency = 8
revision = "{revision}"
"""
SECOND = """
[models.second]
engine = "paced"
fallback = ["paced"]
"""


def config(*more: str, revision: str = "a", instances: int = 2, head: str = HEAD) -> str:
    return "".join((head, PACED.format(revision=revision, instances=instances), *more))


def write(stack: Stack, told: str) -> None:
    """As editors and tools do it: a new file takes the old one's place."""
    fresh = stack.folder / "posthouse.toml.new"
    fresh.write_text(told)
    fresh.replace(stack.folder / "posthouse.toml")


def reload(stack: Stack) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [POSTHOUSE, "reload", "--data", str(stack.data)],
        capture_output=True, text=True, check=False, env=environment(), timeout=60, cwd="/",
    )  # fmt: skip


def change(stack: Stack, told: str) -> None:
    write(stack, told)
    done = reload(stack)
    assert done.returncode == 0, done.stderr


def names(stack: Stack) -> list[str]:
    return [model.id for model in stack.client().models.list().data]


def revisions(stack: Stack, model: str = "paced") -> list[tuple[str, str]]:
    return sorted((i["id"], i["revision"]) for i in stack.pool(model) if i["state"] == "ready")


def settled(stack: Stack, said: str, *, times: int = 1) -> None:
    """The supervisor has said so; else the failure shows what it has said."""
    try:
        wait_until(lambda: stack.text().count(said) >= times, what=f"it says {said!r}", limit=240, every=0.1)
    except AssertionError as late:
        told = [line for line in stack.text().splitlines() if line.startswith("up ") or "[error" in line]
        raise AssertionError("\n".join([str(late), *told])) from None


def ask(stack: Stack, question: str, model: str = "paced") -> str:
    """What the cache did for a deterministic question."""
    body = {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0}
    answer = stack.ask("POST", "/v1/chat/completions", body)
    assert answer.status == 200, answer.body
    return answer.headers["x-posthouse-cache"]


def kept(stack: Stack, question: str) -> None:
    """The answer is kept a moment after it was given."""
    wait_until(lambda: ask(stack, question) == "hit", what="the answer is kept")


def pids(stack: Stack, *slots: int) -> set[int]:
    return {stack.engine_pid(slot=slot) for slot in slots}


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Stack] = []

    def start(told: str, **more: Any) -> Stack:
        made.append(Stack(told, **more))
        return made[-1]

    yield start
    for stack in made:
        assert stack.stop() == 0


@pytest.fixture
def stack(make: Any) -> Stack:
    return make(config())


@pytest.fixture
def flow(stack: Stack) -> Iterator[Flow]:
    made = Flow(stack)
    made.more(5)
    yield made
    made.end()


def test_a_second_model_comes_and_goes_while_requests_flow(stack: Stack, flow: Flow) -> None:
    before = pids(stack, 0, 1)
    change(stack, config(SECOND))
    wait_until(lambda: "second" in names(stack), what="it is offered", limit=240, every=0.1)
    # It is offered once an instance of it is there to serve it.
    assert [i["state"] for i in stack.pool("second")] == ["ready"]
    made = stack.client().chat.completions.create(model="second", messages=[{"role": "user", "content": "to you"}])
    assert (made.model, made.choices[0].message.content) == ("second", "to you")
    running = stack.submit("{{tokens=40 tpot=50}}", model="second")
    stack.reaches(running["id"], "in_progress")
    flow.more(10)

    change(stack, config())
    wait_until(lambda: "second" not in names(stack), what="it is offered no more", limit=30, every=0.1)
    assert stack.ended(running["id"])["status"] == "completed"  # what ran when it went
    with pytest.raises(openai.NotFoundError):
        stack.client().chat.completions.create(model="second", messages=[{"role": "user", "content": "still there?"}])
    settled(stack, "second is gone")
    assert stack.get("/admin/pool")[1]["models"].keys() == {"paced"}
    assert leftovers(stack, "second") == []
    flow.more(10)
    assert pids(stack, 0, 1) == before  # nobody touched the other model


def leftovers(stack: Stack, model: str) -> list[str]:
    """Keys that name the model without saying when they end."""
    client = stack.redis()
    found = [key for key in client.scan_iter("*", count=1000) if model in key and client.ttl(key) < 0]
    return sorted(found) + [name for name in client.smembers("ph:models") if name == model]


@pytest.mark.parametrize("instances", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_revision_rolls_through_while_requests_and_a_long_stream_flow(make: Any, instances: int) -> None:
    stack = make(config(instances=instances))
    flow = Flow(stack)
    before = pids(stack, *range(instances))
    assert ask(stack, "the cached one") == "miss"
    kept(stack, "the cached one")

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        client = stack.client()
        stream = client.responses.create(model="paced", input="{{tokens=400 tpot=20}}", stream=True)
        first = next(iter(stream))
        whole = thread.submit(lambda: [first, *stream])
        change(stack, config(instances=instances, revision="b"))
        settled(stack, "paced is changed")
        events = whole.result(60)
    assert text(events) == counting(400)
    assert numbers(events) == list(range(len(events)))
    assert events[-1].response.status == "completed"

    wanted = [(f"paced.{slot}", "b") for slot in range(instances)]
    wait_until(lambda: revisions(stack) == wanted, what="only new instances are left", limit=15)
    assert sorted(i["id"] for i in stack.pool()) == [name for name, _ in wanted]
    assert not before & pids(stack, *range(instances))
    wait_until(lambda: ask(stack, "the cached one") != "hit", what="old answers are out of reach", limit=15)
    kept(stack, "the cached one")
    flow.more(10)
    flow.end()
    assert stack.get("/readyz")[0] == 200


@pytest.mark.slow
def test_a_stream_that_outlasts_the_drain_goes_on_at_the_next_revision(make: Any) -> None:
    stack = make(config(instances=1, head=HEAD.replace("= 20", "= 1", 1)))
    stream = stack.client().responses.create(model="paced", input="{{tokens=300 tpot=30}}", stream=True)
    first = next(iter(stream))
    change(stack, config(instances=1, revision="b", head=HEAD.replace("= 20", "= 1", 1)))
    events = [first, *stream]
    assert text(events) == counting(300)
    assert numbers(events) == list(range(len(events)))
    assert events[-1].response.usage.output_tokens == 300
    settled(stack, "paced is changed")


@pytest.mark.slow
def test_more_and_fewer_instances_leave_the_others_alone(stack: Stack, flow: Flow) -> None:
    before = pids(stack, 0, 1)
    change(stack, config(instances=3))
    settled(stack, "paced is changed")
    assert [name for name, _ in revisions(stack)] == ["paced.0", "paced.1", "paced.2"]
    change(stack, config(instances=2))
    settled(stack, "paced is changed", times=2)
    assert sorted(i["id"] for i in stack.pool()) == ["paced.0", "paced.1"]
    assert pids(stack, 0, 1) == before
    flow.more(10)


def test_an_unusable_file_changes_nothing(stack: Stack, flow: Flow) -> None:
    before = pids(stack, 0, 1)
    write(stack, config(SECOND.replace('"paced"]', '"nobody"]')))
    done = reload(stack)
    assert (done.returncode, "nobody" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr
    told = stack.process
    told.send_signal(signal.SIGUSR1)  # told all the same
    settled(stack, "nothing is changed")
    assert "nobody" in stack.text()
    assert names(stack) == ["paced"]
    assert pids(stack, 0, 1) == before
    flow.more(10)


@pytest.mark.slow
def test_what_a_removed_model_leaves_undone_is_told_and_ends_at_its_deadline(make: Any) -> None:
    head = HEAD.replace("drain_grace_seconds = 20", "drain_grace_seconds = 1\ndeadline_seconds = 10")
    stack = make(config(SECOND.replace("fallback", "max_concurrency = 1\n#"), instances=1, head=head))
    client = stack.client()
    runs = client.responses.create(
        model="second", input="{{tokens=3000 tpot=100}}", background=True, extra_body={"deadline_seconds": 120}
    )
    stack.reaches(runs.id, "in_progress")
    waits = client.responses.create(model="second", input="?", background=True, extra_body={"deadline_seconds": 120})
    change(stack, config(instances=1, head=head))
    settled(stack, "second is gone; 2 requests still wait for it")
    assert stack.job(waits.id)["status"] == "queued"
    assert stack.ended(runs.id, limit=150)["error"]["code"] == "deadline_exceeded"  # it had begun to answer
    assert stack.ended(waits.id, limit=150)["error"]["code"] == "model_unavailable"
    wait_until(lambda: leftovers(stack, "second") == [], what="nothing of it is left", limit=30, every=0.5)
