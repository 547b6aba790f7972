"""`GET /metrics` (scope `admin`): this process' own measurements, and the fleet's numbers read from Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.api.authentication import require_admin
from app.api.parts import ApiParts, parts
from app.services.pool import ModelState
from model_pool.breaker import BreakerState

blueprint = Blueprint("metrics", __name__)
require_admin(blueprint)

_ENDS = ("completed", "failed", "cancelled", "incomplete")
_TOKENS = {"tokens_in": "input", "tokens_out": "output"}


@blueprint.get("/metrics")
def metrics() -> Response:
    fleet = CollectorRegistry()
    fleet.register(Fleet(parts()))
    return Response(generate_latest(REGISTRY) + generate_latest(fleet), content_type=CONTENT_TYPE_LATEST)


class Fleet:
    """What Redis knows; the same whichever process is asked."""

    def __init__(self, api: ApiParts) -> None:
        self._api = api

    def collect(self) -> Iterator[Metric]:
        states = self._api.pool.states()
        yield from _lines(states)
        yield _instances(states)
        yield _breakers(states)
        yield from self._generations(states)
        yield from self._house()
        yield self._memory()

    def _memory(self) -> Metric:
        found = GaugeMetricFamily(
            "posthouse_redis_memory_ratio", "Used memory of a Redis role as a share of its limit.", labels=("role",)
        )
        for role, ratio in self._api.storage.ratios().items():
            found.add_metric((role,), ratio)
        return found

    def _generations(self, models: dict[str, ModelState]) -> Iterator[Metric]:
        ended = CounterMetricFamily("posthouse_generations", "Generations that ended.", labels=("model", "status"))
        tokens = CounterMetricFamily("posthouse_tokens", "Tokens of ended generations.", labels=("model", "direction"))
        for model in models:
            stats = self._api.store.stats(model)
            for status in _ENDS:
                ended.add_metric((model, status), stats.get(status, 0))
            for field, direction in _TOKENS.items():
                tokens.add_metric((model, direction), stats.get(field, 0))
        yield ended
        yield tokens

    def _house(self) -> Iterator[Metric]:
        totals = self._api.pool.totals()
        yield GaugeMetricFamily("posthouse_running", "Generations that a worker holds.", totals["running"])
        yield GaugeMetricFamily("posthouse_dead_letters", "Generations that failed for good.", totals["dead"])
        waiting = totals["outbox"] + totals["deliveries_due"]
        yield GaugeMetricFamily("posthouse_webhooks_waiting", "Webhook deliveries that wait.", waiting)
        yield GaugeMetricFamily("posthouse_open_streams", "Streams of this API process.", self._api.feed.streams)


def _lines(states: dict[str, ModelState]) -> Iterator[Metric]:
    backlog = GaugeMetricFamily("posthouse_backlog", "Generations that wait in line.", labels=("model",))
    oldest = GaugeMetricFamily("posthouse_oldest_queued_seconds", "Age of the oldest that waits.", labels=("model",))
    wait = GaugeMetricFamily("posthouse_expected_wait_seconds", "Expected wait of the next job.", labels=("model",))
    for model, state in states.items():
        backlog.add_metric((model,), state.line.waiting)
        oldest.add_metric((model,), state.line.oldest_seconds)
        if state.line.wait_seconds is not None:
            wait.add_metric((model,), state.line.wait_seconds)
    yield backlog
    yield oldest
    yield wait


def _instances(states: dict[str, ModelState]) -> Metric:
    found = GaugeMetricFamily("posthouse_instances", "Instances by state.", labels=("model", "state"))
    for model, state in states.items():
        for name, count in Counter(i["state"] for i in state.instances).items():
            found.add_metric((model, name), count)
    return found


def _breakers(states: dict[str, ModelState]) -> Metric:
    found = GaugeMetricFamily(
        "posthouse_breakers", "Instances by the state of their breaker.", labels=("model", "state")
    )
    for model, state in states.items():
        counts = Counter(i["breaker"] for i in state.instances)
        for name in BreakerState:
            found.add_metric((model, name.value), counts[name.value])
    return found
