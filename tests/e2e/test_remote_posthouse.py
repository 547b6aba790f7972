"""Another Posthouse as an engine: asked over HTTP like any server that somebody else runs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from model_pool import engines, errors
from model_pool.client import Continuation, EngineClient, EngineRequest
from model_pool.health import HealthPolicy
from model_pool.spec import InstanceSpec, ModelSpec
from tests.integration.model_pool.watched_instance import READY, STARTING, WatchedInstance, running_instance
from tests.support.door import KEY

REMOTE = engines.get("remote")
_PATIENT = HealthPolicy(probe_seconds=3600, probe_timeout_seconds=20)


def far(stack, run_dir, **options):
    options = {"url": f"{stack.url}/v1", "api_key": KEY, "model": "paced", **options}
    spec = InstanceSpec(ModelSpec("far", "remote", options=options), 0, "cpu", run_dir)
    watched = WatchedInstance(spec, REMOTE, lambda s: EngineClient.at(REMOTE.endpoint(s)), _PATIENT)
    return running_instance(watched)


async def chunks_of(instance, text, continuation=None, **params):
    request = EngineRequest("far", ({"role": "user", "content": text},), params, "r", continuation, "salt")
    async with aclosing(instance.client.stream(request, first_token_timeout=30, token_timeout=30)) as stream:
        return [chunk async for chunk in stream]


def test_a_posthouse_serves_another(stack, tmp_path):
    """Stream, usage, budget and stop strings cross both; what only the far one can refuse comes back as a refusal."""

    async def story() -> None:
        async with far(stack, tmp_path) as seen:
            await seen.reach(STARTING, READY)
            chunks = await chunks_of(seen.instance, "one two three four", max_tokens=3)
            assert "".join(chunk.text for chunk in chunks) == "one two three"
            assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["length"]
            assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [3]
            stop = {"stop": [" three"], "include_stop_str_in_output": True}
            stopped = await chunks_of(seen.instance, "one two three four", max_tokens=9, **stop)
            assert "".join(chunk.text for chunk in stopped) == "one two"
            with pytest.raises(errors.EngineRefused) as refusal:
                await chunks_of(seen.instance, "long " * 9000, max_tokens=3)
            assert refusal.value.code == "context_length_exceeded"
            with pytest.raises(errors.EngineCannotContinue):
                await chunks_of(seen.instance, "x", Continuation(text="so far"), max_tokens=3)

    asyncio.run(story())


def test_a_wrong_key_is_the_instances_fault(stack, tmp_path):
    """It never becomes ready, so no work goes there; a client has done nothing wrong."""

    async def story() -> None:
        async with far(stack, tmp_path, api_key="ph-wrong") as seen:
            await seen.reach(STARTING)
            with pytest.raises(errors.EngineServerError) as failure:
                await seen.instance.client.probe(timeout=20)
            assert (failure.value.status, failure.value.fault) == (401, True)
            assert seen.instance.state is STARTING

    asyncio.run(story())
