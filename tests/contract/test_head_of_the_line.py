"""What stands first and cannot be run, late work or work that another instance has to do, hides nothing behind it."""

from __future__ import annotations

import itertools

import pytest

from app.jobs.job import Status, Webhook
from tests.contract.conftest import Books
from tests.support.letters import letter

_tasks = itertools.count()


def claim(books: Books, instance: str = "m.0") -> list:
    return books.scripts.call("claim", "m", "w", instance, 10_000, f"task-{next(_tasks)}")


def stand(books: Books, number: int, **facts: object) -> list[tuple[str, str]]:
    """So many in line, each of another tenant; (job, generation) of each."""
    made = []
    for _ in range(number):
        job, generation = letter(tenant=f"t{next(_tasks)}", **facts)  # type: ignore[arg-type]
        books.store.submit(job, generation)
        made.append((job.id, generation.id))
    return made


def up(books: Books, *slots: int) -> None:
    for slot in slots:
        books.client.hset(f"ph:instance:m.{slot}", mapping={"slot": slot, "capacity": 4, "in_flight": 0})
        books.client.rpush("ph:ring:m", f"m.{slot}")


@pytest.fixture
def roomy(books: Books) -> Books:
    """A line for hundreds."""
    books.store._caps = type(books.store._caps)(1000, 1000)
    return books


def expire(books: Books, made: list[tuple[str, str]]) -> None:
    for job, generation in made:
        books.client.hset(f"ph:gen:{generation}", "deadline_at", 1)
        books.client.hset(f"ph:job:{job}", "deadline_at", 1)


def test_late_work_ends_in_passing_and_hides_nothing(roomy: Books) -> None:
    up(roomy, 0)
    late = stand(roomy, 40, webhook=Webhook("https://x.example/"))
    ((_, waiting),) = stand(roomy, 1)
    expire(roomy, late)
    assert claim(roomy) == [""], "it is to look again"
    assert claim(roomy)[0] == waiting
    views = [roomy.store.existing(job) for job, _ in late]
    assert {(view.status, view.failure.code if view.failure else "") for view in views} == {
        (Status.FAILED, "deadline_exceeded")
    }
    assert roomy.client.zcard("ph:line:m") == roomy.client.hlen("ph:line:m:tenants") == 0
    assert roomy.client.zcard("ph:deadlines") == 1
    assert set(roomy.client.zrange("ph:outbox", 0, -1)) == {f"job:{job}" for job, _ in late}


def test_very_much_late_work_ends_in_several_looks(roomy: Books) -> None:
    up(roomy, 0)
    late = stand(roomy, 300)
    ((_, waiting),) = stand(roomy, 1)
    expire(roomy, late)
    looks = 0
    while (found := claim(roomy)) == [""]:
        looks += 1
        assert roomy.client.zcard("ph:line:m") >= 301 - 64 * looks, "one look ended too much"
    assert found[0] == waiting


def test_work_for_another_instance_hides_nothing(roomy: Books) -> None:
    up(roomy, 0, 1)
    failed = stand(roomy, 40)
    for _, generation in failed:
        roomy.client.hset(f"ph:gen:{generation}", "excluded", "m.0")
    ((_, waiting),) = stand(roomy, 1)
    assert claim(roomy)[0] == waiting
    assert claim(roomy) == ["1"]
    assert claim(roomy, "m.1")[0] == failed[0][1]


def test_a_late_generation_with_very_many_jobs_is_left_to_the_reaper_and_hides_nothing(roomy: Books) -> None:
    up(roomy, 0)
    late = stand(roomy, 1)
    ((_, waiting),) = stand(roomy, 1)
    expire(roomy, late)
    roomy.client.hset(f"ph:gen:{late[0][1]}", "jobs", 5000)
    assert claim(roomy)[0] == waiting
    assert roomy.client.zcard("ph:line:m") == 1


def test_a_look_that_cannot_end_anything_does_not_ask_for_another(roomy: Books) -> None:
    up(roomy, 0)
    late = stand(roomy, 1)
    expire(roomy, late)
    roomy.client.hset(f"ph:gen:{late[0][1]}", "jobs", 5000)
    assert claim(roomy) == [], "the reaper ends it; until then there is nothing to do here"
