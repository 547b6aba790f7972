"""An instance with a real server process: it comes back from every kind of death, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from model_pool import procfs, slots
from tests.integration.model_pool.standin import (
    QUICK,
    StandInClient,
    StandInEngine,
    alive,
    pids_of,
    standin_spec,
    wait_gone,
)
from tests.integration.model_pool.watched_instance import (
    READY,
    RESTARTING,
    STARTING,
    STOPPED,
    UNHEALTHY,
    WatchedInstance,
    running_instance,
)
from tests.support.waiting import until

LONG = 3600


def environment_of(pid):
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def running(run_dir, *how: str, health=QUICK):
    return running_instance(watched(run_dir, *how, health=health))


def watched(run_dir, *how: str, health=QUICK):
    return WatchedInstance(standin_spec(run_dir, *how), StandInEngine(), StandInClient, health)


def test_a_killed_server_is_replaced(tmp_path):
    """Its end is noticed by itself, long before a probe would be due, and the next one has another pid."""

    async def story() -> None:
        async with running(tmp_path, health=replace(QUICK, probe_seconds=LONG)) as seen:
            await seen.reach(STARTING, READY)
            first = seen.instance.pid
            os.kill(first, signal.SIGKILL)
            await seen.reach(RESTARTING, STARTING, READY)

            assert seen.instance.pid not in {first, None}
            assert not alive(first)
            assert seen.instance.restarts == 1

    asyncio.run(story())


def test_a_frozen_server_is_found_by_probes_and_replaced(tmp_path):
    """Its socket still takes connections; only a token that does not come tells the truth."""

    async def story() -> None:
        async with running(tmp_path) as seen:
            await seen.reach(STARTING, READY)
            first = seen.instance.pid
            os.kill(first, signal.SIGSTOP)
            await seen.reach(UNHEALTHY, RESTARTING, STARTING, READY)

            assert seen.instance.pid != first
            assert not alive(first)

    asyncio.run(story())


def test_streams_that_flow_spare_the_probe(tmp_path):
    """A token a moment ago is all the proof that is needed; once the streams are silent the probe comes."""

    async def story() -> None:
        async with running(tmp_path) as seen:
            await seen.reach(STARTING, READY)
            client = seen.instance.client
            before = client.probes
            streams_end = asyncio.get_running_loop().time() + 4 * QUICK.probe_seconds
            while asyncio.get_running_loop().time() < streams_end:
                seen.instance.token_seen()
                await asyncio.sleep(QUICK.probe_seconds / 10)
            assert client.probes == before
            await until(lambda: client.probes > before)

    asyncio.run(story())


def test_suspicion_is_probed_at_once(tmp_path):
    """With a probe period of an hour, only the suspicion can have found the frozen server."""

    async def story() -> None:
        async with running(tmp_path, health=replace(QUICK, probe_seconds=LONG)) as seen:
            await seen.reach(STARTING, READY)
            os.kill(seen.instance.pid, signal.SIGSTOP)
            seen.instance.suspect("a stream stalled")
            await seen.reach(UNHEALTHY, RESTARTING, STARTING, READY)

    asyncio.run(story())


def test_suspicion_of_a_well_server_changes_nothing(tmp_path):
    """One broken stream is no proof; a probe that answers clears the instance."""

    async def story() -> None:
        async with running(tmp_path, health=replace(QUICK, probe_seconds=LONG)) as seen:
            await seen.reach(STARTING, READY)
            pid, client = seen.instance.pid, seen.instance.client
            before = client.probes
            seen.instance.suspect("a stream broke")
            await until(lambda: client.probes > before)
            assert seen.instance.state is READY
            assert seen.instance.pid == pid

    asyncio.run(story())


def test_replace_starts_another_at_once(tmp_path):
    """The first replacement waits for no backoff, were it an hour."""

    async def story() -> None:
        slow = replace(QUICK, backoff_seconds=LONG, max_backoff_seconds=LONG)
        async with running(tmp_path, "deaf", health=slow) as seen:
            await seen.reach(STARTING, READY)
            first = seen.instance.pid
            seen.instance.replace("sticky fault")
            await seen.reach(RESTARTING, STARTING, READY)

            assert not alive(first)
            assert seen.instance.pid != first

    asyncio.run(story())


def test_stop_ends_everything_and_run_returns(tmp_path):
    """Daemons of the server included; a second stop and a late replace are harmless."""

    async def story() -> None:
        seen = watched(tmp_path, "daemon")
        task = asyncio.create_task(seen.instance.run())
        await seen.reach(STARTING, READY)
        pids = pids_of(seen.instance.spec, 2)
        client = seen.instance.client

        await seen.instance.stop(5)

        await asyncio.wait_for(task, 30)
        await seen.reach(STOPPED)
        assert not any(alive(pid) for pid in pids)
        assert seen.instance.pid is None
        assert client.closed
        seen.instance.replace("too late")
        await seen.instance.stop(0)

    asyncio.run(story())


def test_stop_does_not_wait_for_a_backoff(tmp_path):
    """An instance that fails to start is stopped in the middle of an hour's wait."""

    async def story() -> None:
        slow = replace(QUICK, backoff_seconds=LONG, max_backoff_seconds=LONG)
        async with running(tmp_path, "fail", health=slow) as seen:
            await seen.reach(STARTING, RESTARTING)
        await seen.reach(STOPPED)

    asyncio.run(story())


def test_stop_during_a_start_leaves_nothing(tmp_path):
    """The server is up but not yet ready, or not even that."""

    async def story() -> None:
        async with running(tmp_path) as seen:
            await seen.reach(STARTING)
        record = slots.read(seen.instance.spec.record)
        assert record is None or not alive(record.pgid)

    asyncio.run(story())


def test_a_server_that_cannot_start_is_tried_again_with_growing_waits(tmp_path):
    """It fails four times; every time it says so, and the fifth start works."""

    async def story() -> None:
        seen = watched(tmp_path, "fail")
        delays = []
        next_delay = seen.instance._backoff.next_delay
        seen.instance._backoff.next_delay = lambda: delays.append(next_delay()) or delays[-1]
        task = asyncio.create_task(seen.instance.run())
        await seen.reach(*[STARTING, RESTARTING] * 4)
        seen.instance.spec = standin_spec(tmp_path)
        await seen.reach(STARTING, READY)
        await seen.instance.stop(0)
        await task
        assert delays == [0.025, 0.05, 0.1, 0.1]

    asyncio.run(story())


def test_a_server_that_never_answers_is_given_up(tmp_path):
    """`sleep` never binds the socket: the start has a limit, and the process is gone after it."""

    async def story() -> None:
        seen = watched(tmp_path, health=replace(QUICK, start_seconds=0.2))
        seen.instance._engine.command = lambda _: ["sleep", "600"]
        task = asyncio.create_task(seen.instance.run())
        await seen.reach(STARTING, RESTARTING, STARTING, RESTARTING)
        await seen.instance.stop(0)
        await task

    asyncio.run(story())


def test_a_stale_socket_and_a_stale_server_do_not_stop_a_start(tmp_path):
    """The last worker and its keeper were both killed: their server still holds the socket, and is ended first."""

    async def story() -> None:
        spec = standin_spec(tmp_path)
        stale = subprocess.Popen(StandInEngine().command(spec), start_new_session=True)  # noqa: ASYNC220 -- comes back at once
        started = procfs.look_up(stale.pid).started
        slots.write(spec.record, slots.SlotRecord(stale.pid, started, procfs.boot_id(), "mark"))
        pids_of(spec, 1)

        async with running(tmp_path) as seen:
            await seen.reach(STARTING, READY)
            assert stale.wait(20) == -signal.SIGKILL
            assert seen.instance.pid != stale.pid

    asyncio.run(story())


def test_temporary_files_do_not_pile_up(tmp_path):
    """What a killed server leaves in its scratch folder goes with the next start."""

    async def story() -> None:
        async with running(tmp_path) as seen:
            await seen.reach(STARTING, READY)
            left = seen.instance.spec.scratch / "left"
            left.touch()
            seen.instance.replace("for the test")
            await seen.reach(RESTARTING, STARTING, READY)
            assert list(left.parent.iterdir()) == []

    asyncio.run(story())


def test_the_run_folder_admits_its_owner_only(tmp_path):
    """The socket asks for no password."""

    async def story() -> None:
        async with running(tmp_path / "run") as seen:
            await seen.reach(STARTING, READY)
            assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700

    asyncio.run(story())


def test_the_products_secrets_do_not_reach_the_engine(tmp_path, monkeypatch):
    """Engines run code of many authors; the settings' variables hold keys and passwords."""
    monkeypatch.setenv("POSTHOUSE_SECRET_KEY", "hidden")
    monkeypatch.setenv("SEEN_BY_ALL", "1")

    async def story() -> None:
        async with running(tmp_path) as seen:
            await seen.reach(STARTING, READY)
            environment = environment_of(seen.instance.pid)
            assert b"SEEN_BY_ALL=1" in environment
            assert b"STANDIN=m.0" in environment
            assert not any(line.startswith(b"POSTHOUSE_") for line in environment)

    asyncio.run(story())


@pytest.mark.parametrize("how", [(), ("deaf",)])
def test_nothing_outlives_a_worker_that_was_killed(tmp_path, how):
    """kill -9 of the worker: its server, the server's daemon and the keeper are gone within seconds."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.model_pool.driver", str(tmp_path), "daemon", *how],
        stdout=subprocess.PIPE,
        text=True,
    )
    with worker:
        assert any(line == "ready\n" for line in worker.stdout)
        server, daemon = pids_of(standin_spec(tmp_path), 2)
        keeper = procfs.look_up(server).parent
        assert keeper != worker.pid

        worker.kill()

        wait_gone(worker.pid, server, daemon, keeper, limit=8)
