"""Submit: from a checked request to a job that is kept, or an error and nothing that will ever run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from app.errors import ContextLengthExceeded, PosthouseError, QueueUnavailable, Unavailable
from app.jobs.accepting import Accepted, SubmitOutcomeUnknown
from app.jobs.feed import Feed
from app.jobs.generation import UNCOUNTED, CanonicalRequest, Dispatch, NewGeneration, new_generation_id
from app.jobs.job import JobView, Kind, NewJob, new_job_id
from app.jobs.store import JobStore
from app.jobs.tail import Tail
from app.jobs.voids import Owed
from app.sections import JobSettings
from app.services import budget
from app.services.budget import Budget
from app.services.cached_answers import Answers, Found, Plan
from app.services.first_views import as_answered, as_queued
from app.services.keys import ApiKey
from app.services.models import Models, OfferedModel
from app.services.orders import Order, Submitted
from app.services.tails import Tails
from app.tokens.counting import PromptTokens, unknown

_TIERS = ("flex", "default", "priority")  # from worst to best

_log = structlog.get_logger(__name__)


class HintPublisher(Protocol):
    """Tells workers that there is work (see `app.hints.Hints`); never raises."""

    def publish_run(self, model: str, generation: str, slot: str | None) -> object: ...


@dataclass(frozen=True)
class _Prepared:
    """A checked order about to be kept; `found` is its answer if the cache had it, `charged` the tokens paid for it."""

    key: ApiKey
    job: NewJob
    generation: NewGeneration
    plan: Plan
    found: Found | None
    charged: int


class Charges(Protocol):
    """Counts what keys ask for against their limits (see `app.flow.rate_limit`)."""

    def charge(self, key: ApiKey, tokens: int, *, repeats: Callable[[], bool]) -> int: ...
    def give_back(self, key: ApiKey, tokens: int) -> None: ...


class Free:
    """Nobody counts."""

    def charge(self, _key: ApiKey, _tokens: int, *, repeats: Callable[[], bool]) -> int:  # noqa: ARG002 -- as Charges
        return 0

    def give_back(self, _key: ApiKey, _tokens: int) -> None:
        """There is nothing to give back."""


_FREE = Free()


class Submit:
    """The use case.

    Args:
        check_url: judges a webhook's URL; raises `WebhookUrlForbidden`.
        voids: submits whose outcome is unknown.
        tokens: counts prompts.
        check_storage: raises what a storage that would not keep the job means to the caller.
        charges: counts a request and its tokens against the key's limits; raises `RateLimitExceeded`.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        models: Models,
        feed: Feed,
        hints: HintPublisher,
        voids: Owed,
        check_url: Callable[[str], object],
        answers: Answers,
        limits: JobSettings,
        check_storage: Callable[[], object] = lambda: None,
        tokens: PromptTokens = unknown,
        charges: Charges = _FREE,
    ) -> None:
        self._charges = charges
        self._tokens = tokens
        self._store = store
        self._models = models
        self._tails = Tails(feed)
        self._hints = hints
        self._voids = voids
        self._check_url = check_url
        self._answers = answers
        self._limits = limits
        self._check_storage = check_storage

    def submit(self, order: Order) -> Submitted:
        """Keep the job.

        Raises: what `JobStore.submit` does, `ModelNotFound`, `ContextLengthExceeded`, `CacheMiss`, `RateLimitExceeded`.
        """
        return self._keep(self._prepare(order))

    def submit_followed(self, order: Order) -> tuple[Submitted, Tail | None]:
        """Like `submit`, with a tail that was opened first, so that no event needs a second look into the log.

        Of an order that is not streamed the tail brings the end only; None when it has come already.
        """
        ready = self._prepare(order)
        generation, fresh = ready.generation.id, ready.found is None

        def keep() -> Submitted:
            return self._keep(ready)

        if order.stream:
            return self._tails.stream(generation, keep, fresh=fresh)
        return self._tails.wait(generation, ready.plan.join, keep, fresh=fresh)

    def _prepare(self, order: Order) -> _Prepared:
        model = self._models.existing(order.model)
        if order.webhook is not None:
            self._check_url(order.webhook.url)
        request, cost, tokens = self._request(order, model)
        plan = self._answers.plan(
            tenant=order.key.tenant, model=model, given=order.params, request=request, wishes=order.wishes
        )
        generation = NewGeneration(
            new_generation_id(), request, cost, model.settings.revision, join=plan.join, cache=plan.keep,
            dispatch=self._dispatch(order, model),
        )  # fmt: skip
        found = self._answers.find(plan)
        # Last, so that whatever is refused for what it says costs nothing.
        charged = self._charges.charge(order.key, tokens, repeats=lambda: self._repeats(order))
        return _Prepared(order.key, self._job(order), generation, plan, found, charged)

    def _repeats(self, order: Order) -> bool:
        return order.idempotency is not None and self._store.repeats(order.key.tenant, order.idempotency)

    def _dispatch(self, order: Order, model: OfferedModel) -> Dispatch:
        busy = model.settings.busy_reply if order.kind is Kind.CHAT else None
        fallbacks = tuple(self._fallbacks(order, model))
        return Dispatch(model.settings.policy, fallbacks, busy or "", self._limits.busy_reply_seconds)

    def _fallbacks(self, order: Order, model: OfferedModel) -> Iterator[tuple[str, int]]:
        """Those whose context may hold the request, each with the answer's budget there; estimates."""
        for name in model.settings.fallback:
            other = self._models.offered(name)
            if other is None:
                continue  # it has just been removed
            try:
                found = budget.estimated_budget(other, order.messages, order.max_tokens, param=order.budget_param)
            except ContextLengthExceeded:
                continue
            yield name, found.max_tokens

    def _request(self, order: Order, model: OfferedModel) -> tuple[CanonicalRequest, float, int]:
        """What the engine is asked, its cost in the line, and the tokens that the key's limit is charged."""
        found = self._budget(order, model)
        params = {**order.params, "max_tokens": found.max_tokens}
        if found.uncounted:
            params[UNCOUNTED] = "open" if order.max_tokens is None else "asked"
        request = CanonicalRequest(order.messages, params)
        mean = self._models.mean_output(model.name)
        likely = math.ceil(min(found.max_tokens, mean)) if order.max_tokens is None else order.max_tokens
        cost = budget.expected_cost(found.prompt_tokens, found.max_tokens, mean)
        return request, cost, found.prompt_tokens + likely

    def _budget(self, order: Order, model: OfferedModel) -> Budget:
        budget.refuse_hopeless(model, order.messages, order.max_tokens, param=order.prompt_param)
        counted = self._tokens(model.name, model.settings, order.messages, order.params)
        if counted is None:
            return budget.estimated_budget(model, order.messages, order.max_tokens, param=order.budget_param)
        return budget.exact_budget(
            model, counted, order.max_tokens, prompt_param=order.prompt_param, param=order.budget_param
        )

    def _job(self, order: Order) -> NewJob:
        limits = self._limits
        kept = limits.retention_seconds if order.kind is Kind.RESPONSE and order.store else None
        return NewJob(
            id=new_job_id(order.kind),
            kind=order.kind,
            tenant=order.key.tenant,
            key_id=order.key.id,
            model=order.model,
            tier=min(order.tier, order.key.tier_cap, key=_TIERS.index),
            deadline_seconds=min(order.deadline_seconds or limits.deadline_seconds, limits.max_deadline_seconds),
            retention_seconds=limits.unstored_retention_seconds if kept is None else kept,
            background=order.background,
            stream=order.stream,
            store=order.store,
            metadata=order.metadata,
            echo=order.echo,
            input_items=order.input_items,
            webhook=order.webhook,
            idempotency=order.idempotency,
            user=order.user,
        )

    def _keep(self, ready: _Prepared) -> Submitted:
        """Keep the job; the tokens of one that is not taken on, or was taken on before, are given back."""
        try:
            submitted = self._kept(ready)
        except QueueUnavailable:
            raise  # the limits are counted where nobody answers
        except PosthouseError:
            self._charges.give_back(ready.key, ready.charged)
            raise
        if submitted.replayed:
            self._charges.give_back(ready.key, ready.charged)
        return submitted

    def _kept(self, ready: _Prepared) -> Submitted:
        self._voids.settle()
        self._check_storage()
        try:
            accepted = self._accept(ready)
        except SubmitOutcomeUnknown as error:
            self._voids.add(error.job_id)
            raise
        structlog.contextvars.bind_contextvars(job=accepted.job_id)
        if accepted.replayed:
            return Submitted(self._store.existing(accepted.job_id), replayed=True)
        if accepted.joined:
            place = accepted.position if accepted.position >= 0 else None
            view = self._joined(accepted.job_id)
            return Submitted(view, replayed=False, cache="joined", position=place, eta_seconds=accepted.wait)
        if ready.found is not None:
            view = as_answered(ready.job, accepted, ready.found)
            return Submitted(view, replayed=False, cache=ready.found.state, age=ready.found.age)
        degraded = self._hint(ready, accepted)
        cache = "miss" if ready.plan.join else "bypass"
        view = replace(as_queued(ready.job, accepted), degraded=degraded)
        return Submitted(view, replayed=False, cache=cache, position=accepted.position, eta_seconds=accepted.wait)

    def _joined(self, job_id: str) -> JobView:
        """A job that shares a generation; one that cannot be shown to its caller is not kept either."""
        try:
            return self._store.existing(job_id)
        except Unavailable:
            self._voids.add(job_id)
            raise

    def _hint(self, ready: _Prepared, accepted: Accepted) -> bool:
        """Tell workers that there is work; whether a fallback took it."""
        model, slot, other = ready.job.model, accepted.slot, None
        if slot is None and ready.generation.dispatch.fallbacks:
            try:
                other = self._store.stand_in(ready.generation.id)
            except Unavailable:
                _log.info("stand_in_unknown")  # it is in line; the reaper looks for a fallback as soon as Redis is back
        model, slot = other or (model, slot)
        self._hints.publish_run(model, ready.generation.id, slot)
        return other is not None

    def _accept(self, ready: _Prepared) -> Accepted:
        if ready.found is None:
            return self._store.submit(ready.job, ready.generation)
        return self._store.submit_answered(ready.job, ready.generation, ready.found.result, cache=ready.found.state)
