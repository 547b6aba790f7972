"""Instances of the engines that Posthouse ships, with their real servers and the real client."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from socket import socket

import pytest

from model_pool import engines, errors, procfs
from model_pool.client import EngineClient, EngineRequest
from model_pool.health import HealthPolicy
from model_pool.spec import InstanceSpec, ModelSpec
from tests.integration.model_pool.standin import QUICK, alive
from tests.integration.model_pool.watched_instance import (
    READY,
    RESTARTING,
    STARTING,
    UNHEALTHY,
    WatchedInstance,
    running_instance,
)
from tests.support.paced import MODEL

PATIENT = replace(QUICK, probe_seconds=3600, probe_timeout_seconds=5)


def client_of(spec):
    return EngineClient.at(engines.get(spec.model.engine).endpoint(spec))


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def paced(run_dir, health):
    spec = InstanceSpec(ModelSpec("p", "paced", max_concurrency=4), 0, "cpu", run_dir)
    return running_instance(WatchedInstance(spec, engines.get("paced"), client_of, health))


async def ask(instance, text, limit=20, **params: int):
    """The whole answer, each chunk reported to the instance as the worker does it."""
    request = EngineRequest(instance.spec.model.name, ({"role": "user", "content": text},), params)
    answer = ""
    async with aclosing(instance.client.stream(request, first_token_timeout=limit, token_timeout=limit)) as chunks:
        async for chunk in chunks:
            instance.token_seen()
            answer += chunk.text
    return answer


def test_paced_answers_and_survives_its_crash(tmp_path):
    """The first instance that any test of the whole stack uses: start, answer, crash, come back, answer."""

    async def story() -> None:
        async with paced(tmp_path, PATIENT) as seen:
            await seen.reach(STARTING, READY)
            assert await ask(seen.instance, "one two three") == "one two three"
            pid = seen.instance.pid
            with pytest.raises(errors.EngineFailure):
                await ask(seen.instance, "{{crash}}")
            await seen.reach(RESTARTING, STARTING, READY)
            assert seen.instance.pid != pid
            assert await ask(seen.instance, "four") == "four"

    asyncio.run(story())


def test_a_sticky_fault_ends_with_the_process(tmp_path):
    """Every call fails until the process is replaced."""

    async def story() -> None:
        async with paced(tmp_path, PATIENT) as seen:
            await seen.reach(STARTING, READY)
            for _ in range(2):
                with pytest.raises(errors.EngineServerError):
                    await ask(seen.instance, "{{sticky}}")
            seen.instance.replace("sticky fault")
            await seen.reach(RESTARTING, STARTING, READY)
            assert await ask(seen.instance, "well again") == "well again"

    asyncio.run(story())


def test_a_server_in_a_tight_loop_is_replaced(tmp_path):
    """It answers nobody while it spins: probes find it, and SIGKILL ends it."""

    async def story() -> None:
        async with paced(tmp_path, QUICK) as seen:
            await seen.reach(STARTING, READY)
            pid = seen.instance.pid
            with pytest.raises(errors.EngineFailure):
                await ask(seen.instance, "{{spin=600}}")
            await seen.reach(UNHEALTHY, RESTARTING, STARTING, READY)
            assert not alive(pid)

    asyncio.run(story())


def test_a_busy_instance_answers_its_probe(tmp_path):
    """All sequences of the model are taken and give no token for several periods: the spare one proves it well."""

    async def story() -> None:
        async with paced(tmp_path, replace(QUICK, probe_timeout_seconds=3)) as seen:
            await seen.reach(STARTING, READY)
            pid = seen.instance.pid
            slow = [ask(seen.instance, "{{ttft=1500}} slow") for _ in range(4)]
            assert [answer.strip() for answer in await asyncio.gather(*slow)] == ["slow"] * 4
            assert seen.instance.pid == pid
            assert seen.instance.state is READY

    asyncio.run(story())


@pytest.fixture(scope="module")
def demo_folder():
    from model_pool.quantize.demo import demo_folder_name, ensure_demo_model

    return ensure_demo_model(Path("~/.cache/posthouse/models").expanduser() / demo_folder_name(), lambda *_: None)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_vllm_comes_back_when_its_engine_core_dies_or_freezes(demo_folder, tmp_path, fault):
    """Its API server, and its health URL with it, outlive the engine core; the instance does not believe them."""

    async def story() -> None:
        spec = InstanceSpec(
            ModelSpec("demo", "vllm", str(demo_folder), context_length=1024, max_concurrency=16), 0, "cpu", tmp_path
        )
        health = HealthPolicy(probe_seconds=4, probe_timeout_seconds=2, start_seconds=300, backoff_seconds=0.1)
        watched = WatchedInstance(spec, engines.get("vllm"), client_of, health, limit=300)
        async with running_instance(watched) as seen:
            await seen.reach(STARTING, READY)
            answer = await ask(seen.instance, "What is the capital of France?", 60, max_tokens=16, temperature=0)
            old = [seen.instance.pid, *(process.pid for process in procfs.descendants(seen.instance.pid))]
            (core,) = (pid for pid in old if b"EngineCore" in procfs.command_line(pid))
            os.kill(core, fault)
            await seen.reach(*([UNHEALTHY] if fault == signal.SIGSTOP else []), RESTARTING, STARTING, READY)
            assert not any(alive(pid) for pid in old)
            again = await ask(seen.instance, "What is the capital of France?", 60, max_tokens=16, temperature=0)
            assert again == answer != ""

    asyncio.run(story())


def test_a_remote_server_is_watched_but_never_started(start_paced, tmp_path):
    """The same states as of a server of our own: it goes away, it comes back, and work finds it again."""
    port = free_port()

    async def story() -> None:
        options = {"url": f"http://127.0.0.1:{port}/v1", "model": MODEL, "dialect": "vllm"}
        spec = InstanceSpec(ModelSpec("over-there", "remote", options=options), 0, "cpu", tmp_path)
        watched = WatchedInstance(spec, engines.get("remote"), client_of, QUICK)
        async with running_instance(watched) as seen:
            await seen.reach(STARTING)
            first = start_paced("--port", str(port))
            await seen.reach(READY)
            assert seen.instance.pid is None
            assert await ask(seen.instance, "one two") == "one two"
            first.close()
            await seen.reach(UNHEALTHY, RESTARTING, STARTING)
            start_paced("--port", str(port))
            await seen.reach(READY)
            assert await ask(seen.instance, "three") == "three"

    asyncio.run(story())
