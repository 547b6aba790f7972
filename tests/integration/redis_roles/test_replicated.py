"""`durability = "replicated"`: nothing is put in line, and no 2xx given, before a replica has the record."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator

import pytest
import redis

from app.jobs.accepting import NotReplicated, QueueCaps, SubmitOutcomeUnknown
from app.jobs.job import Idempotency
from app.jobs.store import SCRIPTS, JobStore
from app.lua import AsyncScripts, Scripts
from app.redis import async_jobs_client, jobs_client
from tests.support.letters import letter
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[RedisProcess, RedisProcess]]:
    """A master and its replica."""
    master = RedisProcess()
    replica = RedisProcess(args=("--replicaof", "127.0.0.1", str(master.port)))
    wait_until(
        lambda: master.client().info("replication").get("slave0", {}).get("state") == "online", what="the replica"
    )
    yield master, replica
    replica.close()
    master.close()


def store_of(master: RedisProcess) -> JobStore:
    return JobStore(
        jobs_client(master.url(), timeout=5),
        caps=QueueCaps(50, 50),
        idempotency_seconds=60,
        submit_timeout=5,
        replication_timeout=0.3,
    )


def claim(master: RedisProcess, model: str, task: str) -> list[object]:
    return list(Scripts(master.client(), SCRIPTS).call("claim", model, "w", f"{model}.0", 10_000, task))


def test_an_accepted_job_is_in_line_and_on_the_replica(pair: tuple[RedisProcess, RedisProcess]) -> None:
    master, replica = pair
    job, generation = letter(model="a")
    accepted = store_of(master).submit(job, generation)
    assert accepted.position == 0
    assert replica.client().hget(f"ph:job:{job.id}", "gen") == generation.id
    assert claim(master, "a", "t1")[0] == generation.id


def test_without_a_replica_in_time_nothing_runs_and_voiding_leaves_nothing(
    pair: tuple[RedisProcess, RedisProcess],
) -> None:
    master, replica = pair
    job, generation = letter(model="b", idempotency=Idempotency("key", "body"))
    replica.freeze()
    try:
        with pytest.raises(NotReplicated) as caught:
            store_of(master).submit(job, generation)
        assert claim(master, "b", "t2") == []
    finally:
        replica.thaw()
    assert caught.value.job_id == job.id
    store_of(master).void(job.id)
    assert master.client().keys("ph:idem:*") == []
    assert store_of(master).view(job.id) is None
    assert claim(master, "b", "t3") == []


def test_a_record_whose_step_into_the_line_was_never_sent_is_one_to_void(
    pair: tuple[RedisProcess, RedisProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(pair[0])
    job, generation = letter(model="e")

    def refuse(*_: object) -> None:
        raise redis.ConnectionError from ConnectionRefusedError()

    monkeypatch.setattr(store._scripts, "call", refuse)
    with pytest.raises(SubmitOutcomeUnknown) as caught:
        store.submit(job, generation)
    assert caught.value.job_id == job.id


def test_a_joined_job_waits_for_the_replica_too(pair: tuple[RedisProcess, RedisProcess]) -> None:
    master, replica = pair
    store = store_of(master)
    first, second, third = (letter(model="c") for _ in range(3))
    joined = [(job, dataclasses.replace(generation, join="same")) for job, generation in (first, second, third)]
    store.submit(*joined[0])
    assert store.submit(*joined[1]).joined
    replica.freeze()
    try:
        with pytest.raises(NotReplicated):
            store.submit(*joined[2])
    finally:
        replica.thaw()


def test_who_joins_a_job_that_was_given_up_gets_its_work_into_line(pair: tuple[RedisProcess, RedisProcess]) -> None:
    master, replica = pair
    store = store_of(master)
    (job, generation), (other, spare) = letter(model="d"), letter(model="d")
    generation, spare = (dataclasses.replace(g, join="held") for g in (generation, spare))
    replica.freeze()
    try:
        with pytest.raises(NotReplicated):
            store.submit(job, generation)
    finally:
        replica.thaw()
    wait_until(lambda: master.client().execute_command("WAIT", 1, 1000) == 1, what="the replica is back")
    assert store.submit(other, spare).joined
    store.void(job.id)
    assert claim(master, "d", "t4")[0] == generation.id


def test_commits_say_whether_a_replica_had_them(pair: tuple[RedisProcess, RedisProcess]) -> None:
    master, replica = pair
    store_of(master).submit(*letter(model="e"))
    held = claim(master, "e", "t5")

    async def commit() -> tuple[list[object], int]:
        client = async_jobs_client(master.url(), timeout=5)
        call = ("commit", (held[0], held[1], held[3], "completed", "{}", "", "", 1, 1, 0, '{"k":"end"}'))
        try:
            return await AsyncScripts(client, SCRIPTS).call_many([call], confirm_ms=300)
        finally:
            await client.aclose()

    replica.freeze()
    try:
        assert asyncio.run(commit()) == ([1], 0)
    finally:
        replica.thaw()
    wait_until(lambda: asyncio.run(commit()) == ([1], 1), what="a confirmation")
