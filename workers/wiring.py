"""Builds a GPU worker from settings: the workers' own composition root, beside `app.bootstrap`."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import redis

from app import bootstrap
from app.hints import Hints
from app.jobs.accepting import QueueCaps
from app.jobs.store import JobStore
from app.jobs.work import WorkStore
from app.lua import AsyncScripts, ScriptBook
from app.redis import async_jobs_client, jobs_client, jobs_server
from app.sections import ModelSettings
from app.services import specs
from app.settings import Settings
from app.webhooks.backoff import Schedule
from app.webhooks.deliveries import DeliveryStore
from app.webhooks.fanout import FanOut
from app.webhooks.lookup import SystemLookup
from app.webhooks.targets import Targets
from app.webhooks.tenant_secrets import TenantSecrets
from app.webhooks.transport import AiohttpTransport
from model_pool import engines
from model_pool import registry as pool_registry
from model_pool.breaker import BreakerPolicy
from model_pool.client import EngineClient
from model_pool.health import HealthPolicy
from model_pool.instance import Instance
from model_pool.registry import Registry
from model_pool.revision import revision_of, tokenizer_of
from model_pool.spec import InstanceSpec
from workers.deliveries import Courier
from workers.deliveries import Limits as DeliveryLimits
from workers.facts import Facts
from workers.flusher import Flusher
from workers.gpu_worker import GpuWorker
from workers.inference import Inference
from workers.keeping import Keeping
from workers.reaper import Reaper
from workers.terms import Limits
from workers.trust import Trust

_FLUSHES = 4
_POOL_SCRIPTS = ScriptBook(Path(pool_registry.__file__).parent / "lua")


def instance_spec(settings: Settings) -> InstanceSpec:
    """The instance that this process owns, from `[worker]` and `[models.NAME]`."""
    return specs.instance_spec(settings, settings.worker.model, settings.worker.slot)


def work_store(settings: Settings) -> WorkStore:
    """The job store as workers use it. Call on the loop that will use it."""
    jobs = settings.jobs
    client = async_jobs_client(jobs_server(settings.redis), timeout=settings.redis.jobs_timeout)
    return WorkStore(
        client,
        lease_seconds=jobs.lease_seconds,
        tick_seconds=jobs.reaper_tick_seconds,
        max_attempts=jobs.max_attempts,
        silence=pool_registry.SILENCE_SECONDS,
        confirm_seconds=settings.redis.replication_timeout if settings.redis.durability == "replicated" else 0,
        breaker=breaker_policy(settings),
    )


def breaker_policy(settings: Settings) -> BreakerPolicy:
    """When this worker's instance is taken out."""
    breaker = settings.breaker
    return BreakerPolicy(
        window=int(breaker.window_seconds * 1000),
        minimum=breaker.minimum,
        error_rate=breaker.error_rate,
        cool_down=int(breaker.open_seconds * 1000),
        longest_cool_down=int(breaker.max_open_seconds * 1000),
        probes=breaker.probes,
    )


def gpu_worker(
    settings: Settings,
    hints: Hints,
    models: Mapping[str, ModelSettings],
    *,
    on_available: Callable[[bool], None],
    on_fatal: Callable[[str], None],
) -> GpuWorker:
    """Everything that one GPU worker runs. Call on its loop.

    `models` are those configured at the moment, for what may change while it runs: how long answers are kept.
    """
    spec = instance_spec(settings)
    engine = engines.get(spec.model.engine)
    work = work_store(settings)
    jobs = settings.jobs
    # Each stream is read every `flush_seconds`, at a time of its own; what that brings leaves soon after.
    flusher = Flusher(work, tick=jobs.flush_seconds / _FLUSHES, renew_every=jobs.renew_seconds)
    instance = Instance(
        spec,
        engine,
        health=HealthPolicy(**settings.health.model_dump()),
        client_factory=lambda instance: EngineClient.at(engine.endpoint(instance)),
        on_state=lambda _: worker.state_changed(),
    )
    revision = revision_of(spec.model.path, spec.model.revision)
    trust = Trust(instance, lambda: worker.state_changed())  # noqa: PLW0108 -- the worker is made last
    inference = Inference(
        instance,
        trust,
        work,
        flusher,
        model=spec.model.name,
        owner=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
        instance=spec.id,
        # The API lets nobody but operators ask for it, for benchmarks with answers of an exact length.
        fields=engine.request_fields | {"ignore_eos"},
        tokenizer=tokenizer_of(spec.model.path, spec.model.revision),
        limits=Limits(
            longest_run=jobs.longest_run_seconds,
            first_token=jobs.first_token_stall_seconds,
            between_tokens=jobs.token_stall_seconds,
            max_attempts=jobs.max_attempts,
            server_errors=settings.breaker.minimum,
            context_length=spec.model.context_length,
            rest=jobs.flush_seconds,
        ),
        salt_key=_salt_key(settings),
        on_requeued=_in_background(hints.publish_run),
        on_webhook=_in_background(hints.publish_deliver),
        on_answer=_in_background(Keeping(bootstrap.response_cache(settings, models, local=False), revision).keep),
    )
    redis_client = async_jobs_client(jobs_server(settings.redis), timeout=settings.redis.jobs_timeout)
    registry = Registry(AsyncScripts(redis_client, _POOL_SCRIPTS))
    reaper = Reaper(work, hints, jobs.reaper_tick_seconds)
    facts = Facts(
        model=spec.model.name,
        slot=spec.slot,
        revision=revision,
        engine=spec.model.engine,
        device=spec.device,
        capacity=spec.model.max_concurrency,
        server_counts=engine.logs_stats,
        restart_grace=jobs.drain_grace_seconds,
        probes=settings.breaker.probes,
        policy=settings.models[spec.model.name].policy,
    )
    worker = GpuWorker(
        facts,
        instance=instance,
        inference=inference,
        work=work,
        flusher=flusher,
        registry=registry,
        reaper=reaper,
        trust=trust,
        on_available=on_available,
        on_fatal=on_fatal,
    )
    return worker


def commands(settings: Settings) -> redis.Redis:
    """A synchronous client of the jobs role, for what runs beside the loop."""
    return jobs_client(jobs_server(settings.redis), timeout=settings.redis.jobs_timeout)


def job_store(settings: Settings) -> JobStore:
    """The job store as clients' processes use it; here for revokes and webhooks."""
    jobs, timeout = settings.jobs, settings.redis.jobs_timeout
    return JobStore(
        commands(settings),
        caps=QueueCaps(jobs.queue_cap, max(1, int(jobs.queue_cap * jobs.tenant_queue_share))),
        idempotency_seconds=jobs.idempotency_seconds,
        submit_timeout=timeout,
    )


def courier(settings: Settings) -> Courier:
    """What a webhook worker sends with."""
    hooks = settings.webhooks
    client = commands(settings)
    store = DeliveryStore(client)
    return Courier(
        store=store,
        fan_out=FanOut(store, job_store(settings)),
        secrets=TenantSecrets(client, settings.secret_key.get_secret_value()),
        schedule=Schedule(hooks.first_retry_seconds, hooks.max_retry_seconds, hooks.max_attempts),
        limits=DeliveryLimits(hooks.concurrency, hooks.per_host, hooks.attempt_timeout_seconds),
    )


def transport(settings: Settings) -> AiohttpTransport:
    """What carries webhook attempts; enter it on the loop that sends."""
    hooks = settings.webhooks
    return AiohttpTransport(
        Targets(hooks.allow_hosts, SystemLookup(threads=hooks.concurrency)),
        ssl.create_default_context(),
        timeout=hooks.attempt_timeout_seconds,
        threads=hooks.concurrency,
    )


def _salt_key(settings: Settings) -> bytes:
    """The secret behind the tenants' prefix-cache salts; without a configured one, a secret of this process."""
    return settings.secret_key.get_secret_value().encode() or secrets.token_bytes(32)


def _in_background(publish: Callable[..., bool]) -> Callable[..., None]:
    """Publishing blocks for up to the broker's timeout, so it leaves the loop; `Hints` logs what fails."""
    under_way: set[asyncio.Future[bool]] = set()

    def call(*args: Any) -> None:
        future = asyncio.get_running_loop().run_in_executor(None, publish, *args)
        under_way.add(future)
        future.add_done_callback(under_way.discard)

    return call
