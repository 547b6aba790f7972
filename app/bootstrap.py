"""The composition root: the only place that wires objects together. Nothing is connected before it is used."""

from __future__ import annotations

import functools
import time

import redis

from app import redis as redis_clients
from app.api.closing import Closing
from app.api.parts import ApiParts
from app.jobs.feed import Feed
from app.jobs.store import JobStore, QueueCaps
from app.jobs.voids import Owed
from app.queueing import Hints, create_celery
from app.services.cancel import Cancel, owed_hang_ups
from app.services.keys import KeyStore
from app.services.models import Models
from app.services.pool import Pool
from app.services.results import Results
from app.services.submit import Submit
from app.settings import Settings
from app.webhooks.lookup import SystemLookup
from app.webhooks.targets import Targets
from app.webhooks.tenant_secrets import TenantSecrets

# Commands take well under a millisecond, so this many carry any number of streams; who finds none free waits.
_API_CONNECTIONS = 64


def api_parts(settings: Settings) -> ApiParts:
    """Everything that an API process works with."""
    url, timeout = settings.redis.jobs_url.get_secret_value(), settings.redis.jobs_timeout
    client = redis_clients.jobs_client(url, timeout=timeout, max_connections=_API_CONNECTIONS)
    store = job_store(settings, client)
    feed = Feed(functools.partial(redis_clients.pubsub_link, url, timeout=timeout), store.log)
    voids = Owed("void", store.void)
    hints = Hints(create_celery(settings, publisher_only=True))
    models = Models(settings.models, store.stats, now=time.time())
    results = Results(store, feed, voids)
    targets = Targets(settings.webhooks.allow_hosts, SystemLookup())
    return ApiParts(
        settings=settings,
        store=store,
        feed=feed,
        voids=voids,
        keys=_keys(settings, client),
        models=models,
        pool=Pool(client, settings.models),
        submit=Submit(
            store=store, models=models, feed=feed, hints=hints, voids=voids, check_url=targets.check_url,
            limits=settings.jobs,
        ),
        results=results,
        cancel=Cancel(store, results, hints, owed_hang_ups(store)),
        webhook_secret=TenantSecrets(client, settings.secret_key.get_secret_value()).get_or_create,
        closing=Closing(settings.api.graceful_seconds),
    )  # fmt: skip


def job_store(settings: Settings, client: redis.Redis) -> JobStore:
    """The job store of a process that serves clients; `client` is one of the jobs role."""
    jobs = settings.jobs
    return JobStore(
        client,
        caps=QueueCaps(jobs.queue_cap, max(1, int(jobs.queue_cap * jobs.tenant_queue_share))),
        idempotency_seconds=jobs.idempotency_seconds,
        submit_timeout=settings.redis.jobs_timeout,
    )


def key_store(settings: Settings) -> KeyStore:
    """API keys, for the command line."""
    client = redis_clients.jobs_client(settings.redis.jobs_url.get_secret_value(), timeout=settings.redis.jobs_timeout)
    return _keys(settings, client)


def _keys(settings: Settings, client: redis.Redis) -> KeyStore:
    return KeyStore(client, settings.api.dev_key.get_secret_value())
