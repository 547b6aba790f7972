"""What every caller of the job store relies on, on real Redis, on the oldest supported one, and on the twin."""

from __future__ import annotations

import dataclasses
import itertools
import json
import time

import pytest

from app.errors import IdempotencyConflict, IdempotencyExpired, JobNotFound, QueueFull
from app.jobs import events
from app.jobs.generation import Result, Usage
from app.jobs.job import Idempotency, Status, Webhook
from tests.contract.conftest import Books
from tests.support.letters import letter

_tasks = itertools.count()


def claim(books: Books, *, model: str = "m", instance: str = "m.0", lease: int = 10_000, task: str = "") -> list:
    return books.scripts.call("claim", model, "w", instance, lease, task or f"task-{next(_tasks)}")


def commit(
    books: Books, held: list, *, sequence: int | None = None, fence: int | None = None, good: bool = True
) -> int:
    log = events.end("completed", finish="stop")
    result = json.dumps({"text": "hi", "finish_reason": "stop", "usage": {}, "tool_calls": []})
    token = fence if fence is not None else held[1]
    return books.scripts.call(
        "commit", held[0], token, sequence or held[3], "completed", result, "", "", 5, 7, int(good), log
    )


def reap(books: Books, *, attempts: int = 3, tick: int = 0, lease: int = 10_000) -> list:
    return books.scripts.call("reap", tick, lease, attempts, 5000, 100)


def test_an_accepted_job_is_queued_and_readable(books: Books) -> None:
    job, generation = letter(metadata={"a": "b"})
    accepted = books.store.submit(job, generation)
    assert (accepted.position, accepted.slot) == (0, None)
    view = books.store.existing(job.id)
    assert (view.status, view.position, view.metadata) == (Status.QUEUED, 0, {"a": "b"})
    assert [e.kind for e in books.store.log(generation.id)] == ["created", "queued"]


def test_an_unknown_id_is_not_a_job_and_leaves_no_key(books: Books) -> None:
    before = books.client.dbsize()
    with pytest.raises(JobNotFound):
        books.store.existing("resp_" + "0" * 32)
    assert books.client.dbsize() == before


def test_a_late_submit_does_nothing(books: Books) -> None:
    facts = {"job_id": "j", "gen_id": "g"}
    reply = books.scripts.call("submit", 1, json.dumps(facts), 0)
    assert reply[0] == "late"
    assert books.client.dbsize() == 0


def test_a_run_from_claim_to_commit(books: Books) -> None:
    job, generation = letter()
    books.store.submit(job, generation)
    held = claim(books)
    assert held[0] == generation.id
    assert books.store.existing(job.id).status is Status.IN_PROGRESS
    assert books.scripts.call("append", held[0], held[1], 3, "", *events.OPENING, events.delta("hi", [1])) == 1
    assert commit(books, held, sequence=6) == 1
    view = books.store.existing(job.id)
    assert (view.status, view.result and view.result["text"]) == (Status.COMPLETED, "hi")
    sequences = [e.sequence for e in books.store.whole_log(generation.id)]
    assert sequences == list(range(7))


def test_there_is_one_commit_however_often_it_is_sent(books: Books) -> None:
    books.store.submit(*letter())
    held = claim(books)
    assert [commit(books, held), commit(books, held)] == [1, 1]
    assert [e.kind for e in books.store.whole_log(held[0])].count("end") == 1
    assert books.store.stats("m")["completed"] == 1


def test_events_sent_again_after_a_lost_reply_are_logged_once(books: Books) -> None:
    books.store.submit(*letter())
    held = claim(books)
    send = ("append", held[0], held[1], 3, "", *events.OPENING, events.delta("x"))
    assert [books.scripts.call(*send), books.scripts.call(*send)] == [1, 1]
    assert [e.sequence for e in books.store.whole_log(held[0])] == list(range(6))
    assert books.scripts.call("append", held[0], held[1], 9, "", events.delta("gap")) == 0


def test_a_task_that_never_heard_its_claim_gets_the_same_one_again(books: Books) -> None:
    books.store.submit(*letter())
    books.store.submit(*letter())
    first, again = claim(books, task="same"), claim(books, task="same")
    assert again[:3] == first[:3]


def test_a_worker_that_lost_its_lease_can_write_nothing(books: Books) -> None:
    job, generation = letter()
    books.store.submit(job, generation)
    old = claim(books, lease=0)
    reap(books)
    new = claim(books)
    assert new[0] == old[0]
    assert books.scripts.call("append", old[0], old[1], 3, "", events.delta("x")) == 0
    assert commit(books, old) == 0
    assert books.scripts.call("renew", 1000, old[0], old[1]) == [old[0]]
    assert books.scripts.call("renew", 1000, new[0], new[1]) == []
    assert commit(books, new) == 1
    assert books.store.existing(job.id).attempts == 2


def test_lost_attempts_are_bounded_and_end_in_the_dead_letters(books: Books) -> None:
    job, generation = letter()
    books.store.submit(job, generation)
    for _ in range(3):
        assert claim(books, lease=0)
        reap(books)
    view = books.store.existing(job.id)
    assert (view.status, view.failure and view.failure.code, view.attempts) == (Status.FAILED, "worker_lost", 3)
    assert claim(books) == []
    assert books.client.zrange("ph:dead", 0, -1) == [generation.id]
    assert list(books.store.whole_log(generation.id))[-1].body["code"] == "worker_lost"


def test_a_drained_generation_returns_to_its_place_and_pays_no_attempt(books: Books) -> None:
    first, second = letter(), letter()
    books.store.submit(*first)
    books.store.submit(*second)
    held = claim(books)
    assert books.scripts.call("release", held[0], held[1], 0, 3, "worker_lost", "drained", "")[0] == "requeued"
    assert books.store.existing(first[0].id).status is Status.IN_PROGRESS
    again = claim(books)
    assert (again[0], again[2]) == (first[1].id, 1)


def test_output_that_cannot_be_continued_ends_failed_with_its_text_kept(books: Books) -> None:
    job, generation = letter(params={"response_format": {"type": "json_object"}})
    books.store.submit(job, generation)
    held = claim(books)
    books.scripts.call("append", held[0], held[1], 3, "", *events.OPENING, events.delta("{"))
    assert books.scripts.call("release", held[0], held[1], 1, 3, "worker_lost", "gone", "")[0] == "failed"
    assert books.store.existing(job.id).status is Status.FAILED
    assert events.text_of(books.store.whole_log(generation.id)) == "{"


def test_an_answer_that_has_begun_to_reason_cannot_be_continued(books: Books) -> None:
    job, generation = letter()
    books.store.submit(job, generation)
    held = claim(books)
    books.scripts.call("append", held[0], held[1], 3, "", *events.REASONING_OPENING, events.reasoning("hm"))
    assert books.scripts.call("release", held[0], held[1], 0, 3, "worker_lost", "gone", "")[0] == "failed"
    assert books.store.existing(job.id).status is Status.FAILED


def test_cancelling_a_queued_job_takes_it_out_of_line(books: Books) -> None:
    job, generation = letter()
    books.store.submit(job, generation)
    assert books.store.cancel(job.id) is True
    assert books.store.cancel(job.id) is False
    view = books.store.existing(job.id)
    assert (view.status, view.end_sequence) == (Status.CANCELLED, 2)
    assert claim(books) == []
    assert books.client.hgetall("ph:line:m:tenants") == {}


def test_cancelling_a_running_job_makes_the_worker_lose_it(books: Books) -> None:
    job, generation = letter()
    books.store.submit(job, generation)
    held = claim(books)
    books.store.cancel(job.id)
    assert books.scripts.call("renew", 1000, held[0], held[1]) == [generation.id]
    assert commit(books, held) == 0
    assert books.store.existing(job.id).status is Status.CANCELLED
    assert books.client.zcard("ph:running") == 0


@pytest.mark.parametrize("by", ["claim", "reaper"])
def test_work_past_its_deadline_ends_and_is_never_started(books: Books, by: str) -> None:
    job, generation = letter(deadline_seconds=0.001)
    books.store.submit(job, generation)
    books.pass_time()
    books.client.hset("ph:instance:m.0", mapping={"slot": 0, "capacity": 1, "in_flight": 0})
    books.client.rpush("ph:ring:m", "m.0")
    if by == "claim":
        assert claim(books) == []
    else:
        assert reap(books)[3] == 1
    view = books.store.existing(job.id)
    assert (view.status, view.failure and view.failure.code) == (Status.FAILED, "deadline_exceeded")
    assert claim(books) == []
    assert books.client.zcard("ph:deadlines") == 0


def test_webhook_jobs_enter_the_outbox_once_when_they_end(books: Books) -> None:
    ended, left = letter(webhook=Webhook("https://x.example/")), letter(webhook=Webhook("https://x.example/"))
    plain = letter()
    for each in (ended, left, plain):
        books.store.submit(*each)
    commit(books, claim(books))
    books.store.cancel(left[0].id)
    books.store.cancel(plain[0].id)
    assert set(books.client.zrange("ph:outbox", 0, -1)) == {f"gen:{ended[1].id}", f"job:{left[0].id}"}


def test_caps_refuse_without_leaving_a_key(books: Books) -> None:
    for _ in range(10):
        books.store.submit(*letter(tenant="greedy"))
    before = books.client.dbsize()
    with pytest.raises(QueueFull):
        books.store.submit(*letter(tenant="greedy"))
    assert books.client.dbsize() == before
    for n in range(10):
        books.store.submit(*letter(tenant=f"t{n}"))
    with pytest.raises(QueueFull):
        books.store.submit(*letter(tenant="late"))


def test_one_idempotency_key_is_one_job(books: Books) -> None:
    key = Idempotency("k1", "body")
    first = books.store.submit(*letter(idempotency=key))
    again = books.store.submit(*letter(idempotency=key))
    assert (again.job_id, again.replayed) == (first.job_id, True)
    with pytest.raises(IdempotencyConflict):
        books.store.submit(*letter(idempotency=Idempotency("k1", "other")))
    assert books.store.submit(*letter(tenant="other", idempotency=key)).replayed is False


def test_a_voided_submit_never_runs_whether_it_came_before_or_after(books: Books) -> None:
    before, after = letter(), letter()
    books.store.submit(*before)
    books.store.void(before[0].id)
    books.store.void(after[0].id)
    assert books.store.view(before[0].id) is None
    from app.errors import QueueUnavailable

    with pytest.raises(QueueUnavailable):
        books.store.submit(*after)
    assert claim(books) == []


def test_a_void_keeps_what_a_repetition_has_been_given(books: Books) -> None:
    key = Idempotency("k", "body")
    lost = books.store.submit(*letter(idempotency=key))
    assert books.store.submit(*letter(idempotency=key)).replayed
    books.store.void(lost.job_id)
    assert books.store.existing(lost.job_id).status is Status.QUEUED
    assert claim(books)[0] == lost.generation


def test_what_came_while_redis_was_away_is_logged_however_much_it_is(books: Books) -> None:
    books.store.submit(*letter())
    held = claim(books)
    late = [events.delta("x")] * 9_000
    assert books.scripts.call("append", held[0], held[1], 3, "", *late) == 1
    end = events.end("completed", finish="stop")
    assert books.scripts.call("commit", held[0], held[1], 9_003, "completed", "{}", "", "", 5, 7, 0, *late, end) == 1
    assert books.store.next_sequence(held[0]) == 18_004


def test_work_that_aged_out_in_line_is_counted_no_more(books: Books) -> None:
    gone = [letter() for _ in range(3)]
    for job, generation in gone:
        books.store.submit(job, generation)
        books.client.delete(f"ph:gen:{generation.id}", f"ph:job:{job.id}")
    assert claim(books) == []
    left = ("ph:line:m", "ph:line:m:tenants", "ph:line:m:tiers", "ph:line:m:since")
    assert not books.client.exists(*left)


def test_a_job_that_has_ended_waits_for_no_deadline(books: Books) -> None:
    books.store.submit(*letter())
    books.store.submit(*letter())
    commit(books, claim(books))
    assert books.client.zcard("ph:deadlines") == 1


def test_every_key_that_a_job_leaves_expires(books: Books) -> None:
    books.store.submit(*letter(idempotency=Idempotency("k", "b"), webhook=Webhook("https://x.example/")))
    held = claim(books)
    books.scripts.call("append", held[0], held[1], 3, "", events.delta("x"))
    commit(books, held, sequence=4)
    lasting = {k for k in books.client.keys("*") if books.client.ttl(k) == -1}
    assert lasting <= {
        "ph:line:m", "ph:line:m:clock", "ph:line:m:flows", "ph:line:m:tenants", "ph:models", "ph:deadlines",
        "ph:stats:m", "ph:outbox", "ph:reaper", "ph:dead", "ph:running",
    }  # fmt: skip


def test_a_burst_of_one_tenant_delays_anothers_next_job_by_about_one_job(books: Books) -> None:
    for _ in range(10):
        books.store.submit(*letter(tenant="burst"))
    quiet = letter(tenant="quiet")
    books.store.submit(*quiet)
    assert [claim(books)[0] for _ in range(2)][1] == quiet[1].id


def test_tiers_are_weights_and_flex_still_moves(books: Books) -> None:
    for _ in range(9):
        books.store.submit(*letter(tenant="vip", tier="priority"))
    flex = [letter(tenant="slow", tier="flex") for _ in range(2)]
    for each in flex:
        books.store.submit(*each)
    order = [claim(books)[0] for _ in range(11)]
    assert order.index(flex[0][1].id) == 1
    assert 8 <= order.index(flex[1][1].id) <= 10


def test_a_gap_in_the_ticks_holds_the_reaper_for_one_lease_and_costs_no_attempt(books: Books) -> None:
    job, generation = letter()
    books.store.submit(job, generation)
    reap(books)
    claim(books, lease=0)
    books.client.hset("ph:reaper", "tick", int(time.time() * 1000) - 60_000)
    assert reap(books, lease=300)[:2] == ["held", 0]
    from tests.support.waiting import wait_until

    wait_until(lambda: reap(books, lease=300)[1] == 1, what="the hold ends")
    assert claim(books)[2] == 1


def test_a_line_that_stands_still_beside_free_places_is_hinted_again(books: Books) -> None:
    books.store.submit(*letter())
    books.client.hset("ph:instance:m.0", mapping={"capacity": 2, "in_flight": 0, "slot": 0})
    books.client.rpush("ph:ring:m", "m.0")
    from tests.support.waiting import wait_until

    reply = wait_until(lambda: (r := reap(books))[5:] and r, what="a hint for the line")
    assert reply[5:] == ["m", 1]
    assert reap(books)[5:] == []


def joining(**job: object) -> tuple:
    new, generation = letter(**job)
    return new, dataclasses.replace(generation, join="digest")


def test_identical_requests_in_flight_share_one_generation(books: Books) -> None:
    first, second = joining(), joining()
    books.store.submit(*first)
    accepted = books.store.submit(*second)
    assert (accepted.joined, accepted.generation, accepted.position) == (True, first[1].id, 0)
    assert books.store.existing(second[0].id).cache == "joined"
    held = claim(books)
    assert claim(books) == []
    commit(books, held)
    assert {books.store.existing(j.id).status for j in (first[0], second[0])} == {Status.COMPLETED}


def test_a_joined_job_leaves_alone_and_the_last_to_leave_ends_the_work(books: Books) -> None:
    first, second = joining(), joining()
    books.store.submit(*first)
    books.store.submit(*second)
    held = claim(books)
    books.store.cancel(first[0].id)
    assert books.scripts.call("renew", 1000, held[0], held[1]) == []
    assert books.store.existing(second[0].id).status is Status.IN_PROGRESS
    books.store.cancel(second[0].id)
    assert books.scripts.call("renew", 1000, held[0], held[1]) == [held[0]]
    assert books.store.submit(*joining()).joined is False


def test_a_good_end_stays_joinable_for_a_moment_and_a_bad_one_does_not(books: Books) -> None:
    books.store.submit(*joining())
    commit(books, claim(books))
    late = joining(webhook=Webhook("https://x.example/"))
    assert books.store.submit(*late).joined
    assert books.store.existing(late[0].id).status is Status.COMPLETED
    assert books.client.zscore("ph:outbox", f"job:{late[0].id}")
    assert 0 < books.client.pttl("ph:join:digest") <= 5000
    books.client.delete("ph:join:digest")
    books.store.submit(*joining())
    commit(books, claim(books), good=False)
    assert books.store.submit(*joining()).joined is False


def test_joining_raises_tier_and_deadline_to_the_best_of_all(books: Books) -> None:
    for _ in range(3):
        books.store.submit(*letter(tenant="other"))
    slow = joining(tier="flex", tenant="me", deadline_seconds=5)
    books.store.submit(*slow)
    books.store.submit(*letter(tenant="me", tier="flex"))
    hurried = joining(tier="priority", tenant="me", deadline_seconds=500)
    before = books.store.existing(slow[0].id).position
    books.store.submit(*hurried)
    assert books.store.existing(slow[0].id).position <= before
    member = books.client.hget(f"ph:gen:{slow[1].id}", "member")
    assert member.startswith("0")
    assert books.client.zscore("ph:line:m", member) is not None
    remaining = int(books.client.hget(f"ph:gen:{slow[1].id}", "deadline_at")) - time.time() * 1000
    assert remaining > 400_000
    assert books.client.pttl(f"ph:gen:{slow[1].id}") > 1_000_000


def test_a_cached_answer_is_a_job_that_is_born_completed_with_a_log_of_its_own(books: Books) -> None:
    job, generation = letter(webhook=Webhook("https://x.example/"))
    answer = Result("forty two", "stop", Usage(3, 2))
    accepted = books.store.submit_answered(job, generation, answer, cache="hit")
    assert accepted.answered
    view = books.store.existing(job.id)
    assert (view.status, view.cache, view.attempts) == (Status.COMPLETED, "hit", 0)
    assert view.result is not None
    assert view.result["text"] == "forty two"
    log = list(books.store.whole_log(generation.id))
    assert [e.sequence for e in log] == list(range(len(log)))
    assert (events.text_of(log), log[-1].body["status"]) == ("forty two", "completed")
    assert books.client.zrange("ph:outbox", 0, -1) == [f"job:{job.id}"]
    assert claim(books) == []
    assert not {k for k in books.client.keys("ph:gen:*") + books.client.keys("ph:job:*") if books.client.ttl(k) < 0}


def test_a_deleted_job_is_gone_with_everything_that_was_only_its_own(books: Books) -> None:
    kept, gone = letter(), letter(idempotency=Idempotency("key", "body"))
    books.store.submit(*kept)
    books.store.submit(*gone)
    assert books.store.delete(gone[0].id) is True
    assert books.store.delete(gone[0].id) is False
    assert books.store.view(gone[0].id) is None
    assert not books.client.keys(f"ph:gen:{gone[1].id}*")
    assert books.store.page_of_jobs("t", before=None, count=10) == [kept[0].id]
    with pytest.raises(IdempotencyExpired):
        books.store.submit(*letter(idempotency=Idempotency("key", "body")))


def test_deleting_a_running_job_stops_its_run_and_a_shared_generation_outlives_it(books: Books) -> None:
    first, second = joining(), joining()
    books.store.submit(*first)
    books.store.submit(*second)
    held = claim(books)
    books.store.delete(first[0].id)
    commit(books, held)
    assert books.store.existing(second[0].id).status is Status.COMPLETED
    books.store.delete(second[0].id)
    assert not books.client.keys(f"ph:gen:{first[1].id}*")


def test_a_tenants_jobs_are_listed_newest_first_in_pages(books: Books) -> None:
    jobs = [letter(tenant="lister") for _ in range(5)]
    for number, each in enumerate(jobs):
        books.store.submit(*each)
        books.client.zadd("ph:tenant:lister:jobs", {each[0].id: number})
    books.store.submit(*letter(tenant="another"))
    newest_first = [job.id for job, _ in reversed(jobs)]
    page = books.store.page_of_jobs("lister", before=None, count=3)
    assert page == newest_first[:3]
    assert books.store.page_of_jobs("lister", before=page[-1], count=3) == newest_first[3:]
    assert books.store.page_of_jobs("lister", before="resp_unknown", count=3) is None
    assert books.client.pttl("ph:tenant:lister:jobs") > 0
