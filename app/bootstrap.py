"""The composition root: the only place that wires objects together. Nothing is connected before it is used."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterator, Mapping

import redis

from app import redis as redis_clients
from app.api.closing import Closing
from app.api.parts import ApiParts
from app.api.rate_headers import RateObserver
from app.cache_metrics import CacheMetrics
from app.flow.rate_limit import RateLimits
from app.hints import Hints
from app.jobs.accepting import QueueCaps
from app.jobs.feed import Feed
from app.jobs.store import JobStore
from app.jobs.voids import Owed
from app.sections import ModelSettings
from app.services.cached_answers import Answers
from app.services.cancel import Cancel, owed_hang_ups
from app.services.catalogue import Catalogue
from app.services.client_tokens import ClientTokens
from app.services.conversation import Conversation
from app.services.dead_letters import DeadLetters
from app.services.keys import KeyStore
from app.services.listing import Listing
from app.services.models import Models
from app.services.overview import Overviews
from app.services.pool import Pool
from app.services.results import Results
from app.services.storage import Storage
from app.services.submit import Submit
from app.settings import Settings
from app.tokens.counting import TokenCounts
from app.tokens.threads import Threads
from app.webhooks.lookup import SystemLookup
from app.webhooks.targets import Targets
from app.webhooks.tenant_secrets import TenantSecrets
from cache.guard import GuardedStore
from cache.local import LocalLru
from cache.response_cache import CacheLimits, ResponseCache
from cache.store import RedisEntryStore
from cache.tally import Tally
from cache.ttl import Lifetime

# Commands take well under a millisecond, so this many carry any number of streams; who finds none free waits.
_API_CONNECTIONS = 64


def api_parts(settings: Settings) -> ApiParts:
    """Everything that an API process works with."""
    server, timeout = redis_clients.jobs_server(settings.redis), settings.redis.jobs_timeout
    client = redis_clients.jobs_client(server, timeout=timeout, max_connections=_API_CONNECTIONS)
    store = job_store(settings, client)
    feed = Feed(functools.partial(redis_clients.pubsub_link, server, timeout=timeout), store.log)
    voids = Owed("void", store.void)
    hints = Hints(client)
    keys = _keys(settings, client)
    catalogue = Catalogue(settings.models)
    models = Models(catalogue, store.stats, now=time.time())
    results = Results(store, feed, voids)
    pool = Pool(client, catalogue)
    storage = _storage(settings, client)
    cache = response_cache(settings, catalogue, local=True)
    answers = Answers(cache, nobody=lambda model: not pool.available().get(model))
    targets = Targets(settings.webhooks.allow_hosts, SystemLookup())
    secrets = TenantSecrets(client, settings.secret_key.get_secret_value())
    return ApiParts(
        settings=settings,
        catalogue=catalogue,
        store=store,
        feed=feed,
        voids=voids,
        keys=keys,
        client_tokens=ClientTokens(client, keys),
        models=models,
        pool=pool,
        storage=storage,
        cache=cache,
        dead_letters=DeadLetters(client, hints, catalogue),
        submit=Submit(
            store=store, models=models, feed=feed, hints=hints, voids=voids, check_url=targets.check_url,
            answers=answers, limits=settings.jobs, tokens=TokenCounts(Threads()),
            check_storage=storage.check, charges=RateLimits(client, RateObserver()),
        ),
        results=results,
        cancel=Cancel(store, results, hints, owed_hang_ups(store)),
        conversation=Conversation(store, results),
        listing=Listing(store),
        webhook_secret=secrets.get_or_create,
        rotate_webhook_secret=secrets.rotate,
        closing=Closing(settings.api.graceful_seconds),
    )  # fmt: skip


def _storage(settings: Settings, jobs: redis.Redis) -> Storage:
    cache = redis_clients.cache_server(settings.redis)
    return Storage(jobs, redis_clients.jobs_client(cache, timeout=settings.redis.cache_timeout, max_connections=2))


def response_cache(settings: Settings, models: Mapping[str, ModelSettings], *, local: bool) -> ResponseCache:
    """The response cache of a process. Without `local` it keeps no copies of its own, for processes that only write."""
    redis_settings, sizes = settings.redis, settings.cache
    client = redis_clients.jobs_client(redis_clients.cache_server(redis_settings), timeout=redis_settings.cache_timeout)
    observer = CacheMetrics()
    store = GuardedStore(RedisEntryStore(client), monotonic=time.monotonic, observer=observer)
    return ResponseCache(
        local=LocalLru(entries=sizes.local_entries if local else 0, size=sizes.local_bytes, monotonic=time.monotonic),
        store=store,
        tally=Tally(store, monotonic=time.monotonic),
        lifetimes=_Lifetimes(models),
        clock=time.time,
        chance=random.random,
        observer=observer,
        limits=CacheLimits(entry_bytes=sizes.entry_bytes),
    )


class _Lifetimes(Mapping[str, Lifetime]):
    """How long answers of each model are fresh, as configured at the moment."""

    def __init__(self, models: Mapping[str, ModelSettings]) -> None:
        self._models = models

    def __getitem__(self, name: str) -> Lifetime:
        found = self._models[name].cache
        return Lifetime(found.ttl, found.jitter, found.stale_seconds)

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


def job_store(settings: Settings, client: redis.Redis) -> JobStore:
    """The job store of a process that serves clients; `client` is one of the jobs role."""
    jobs = settings.jobs
    return JobStore(
        client,
        caps=QueueCaps(jobs.queue_cap, max(1, int(jobs.queue_cap * jobs.tenant_queue_share))),
        idempotency_seconds=jobs.idempotency_seconds,
        submit_timeout=settings.redis.jobs_timeout,
        replication_timeout=_replication_timeout(settings),
    )


def _replication_timeout(settings: Settings) -> float | None:
    return settings.redis.replication_timeout if settings.redis.durability == "replicated" else None


def key_store(settings: Settings) -> KeyStore:
    """API keys, for the command line."""
    client = redis_clients.jobs_client(redis_clients.jobs_server(settings.redis), timeout=settings.redis.jobs_timeout)
    return _keys(settings, client)


def pool(settings: Settings) -> Pool:
    """The pool, for the command line."""
    return Pool(_command_client(settings), settings.models)


def overviews(settings: Settings) -> Overviews:
    """What `posthouse top` shows, for the command line."""
    client = _command_client(settings)
    cache = response_cache(settings, settings.models, local=False)
    return Overviews(Pool(client, settings.models), _storage(settings, client), cache.stats)


def dead_letters(settings: Settings) -> DeadLetters:
    """Dead letters, for the command line."""
    client = _command_client(settings)
    return DeadLetters(client, Hints(client), settings.models)


def _command_client(settings: Settings) -> redis.Redis:
    return redis_clients.jobs_client(redis_clients.jobs_server(settings.redis), timeout=settings.redis.jobs_timeout)


def _keys(settings: Settings, client: redis.Redis) -> KeyStore:
    return KeyStore(client, settings.api.dev_key.get_secret_value())
