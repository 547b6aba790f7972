"""What a hint leads to: claim the best generation in line, stream it, commit it, or hand it back.

A plain class without Celery; one per worker process, on its loop. Failure policy: a client's mistake ends the job and
says nothing of the instance; a fault of the instance hands the generation back to the line, where it costs an attempt
and is tried elsewhere; running out of time or memory ends the job with its own code.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import lru_cache

import structlog

from app.jobs import events
from app.jobs.generation import Claim, Usage
from app.jobs.work import Verdict, WorkStore
from app.redis import REDIS_AWAY
from model_pool.errors import EngineFailure, EngineOutOfMemory, EngineRefused, EngineServerError, EngineUnreachable
from model_pool.exchange import EngineRequest
from workers.attempt import Attempt, Earlier
from workers.flusher import Flusher
from workers.run import Run
from workers.terms import Counts, Horse, Limits, Report
from workers.trust import Trust

# What a hint names that was passed on; the claim decides what is run.
FORWARDED = "gen_forwarded"

_QUIET = frozenset({"completed", "incomplete"})

_RETRY_SECONDS = 0.2
_PASS_ON_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class Inference:
    """Runs generations of one model on one instance.

    Args:
        owner: this process, unique in the fleet.
        instance: `<model>.<slot>`.
        fields: the engine's allow-list of request fields.
        tokenizer: whose token ids the engine gives (see `model_pool.revision.tokenizer_of`).
        salt_key: secret from which each tenant's prefix-cache salt is made.
        on_requeued: called with (model, generation, slot) when a generation is for another instance: it went back to
            the line, or this one may not run it. The slot is None where nobody else has a free place.
        on_webhook: called when a commit left something in the outbox.
        on_answer: called with a committed answer that others may have too, and the seconds that it took.
    """

    def __init__(
        self,
        horse: Horse,
        trust: Trust,
        work: WorkStore,
        flusher: Flusher,
        *,
        model: str,
        owner: str,
        instance: str,
        fields: frozenset[str],
        tokenizer: str,
        limits: Limits,
        salt_key: bytes,
        on_requeued: Callable[[str, str, str | None], None],
        on_webhook: Callable[[], None],
        on_answer: Callable[[Claim, Verdict, float], None] = lambda *_: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._horse = horse
        self._trust = trust
        self._work = work
        self._flusher = flusher
        self._model, self._owner, self._instance = model, owner, instance
        self._fields = fields
        self._tokenizer = tokenizer
        self._limits = limits
        self._salt_key = salt_key
        self._on_requeued = on_requeued
        self._on_webhook = on_webhook
        self._on_answer = on_answer
        self._monotonic = monotonic
        # A last attempt runs beside no other last attempt: a job that kills its engine cannot take with it, three
        # times in a row, those that merely ran beside it.
        self._last_chance = asyncio.Lock()
        self._under_way: set[str] = set()
        self._failed_in_row: set[str] = set()  # generations that met a server error since the last token
        self._salt = lru_cache(maxsize=1024)(self._salt_of)
        self.counts = Counts()

    @property
    def busy(self) -> bool:
        """Whether any hint is under way: one that runs, or one whose claim may still be granted."""
        return bool(self._under_way)

    async def run_hint(self, task_id: str) -> Report:
        """Run the first generation in line. The report has ids, numbers and codes only: it is shown in Flower.

        A message that outlived the visibility timeout comes a second time, under the same task id and perhaps to this
        very process, whose claim would be given to it again: nothing is run for it.
        """
        if task_id in self._under_way:
            return {"ran": None, "why": "delivered again while it runs"}
        self._under_way.add(task_id)
        try:
            return await self._claim_and_run(task_id)
        finally:
            self._under_way.discard(task_id)

    async def _claim_and_run(self, task_id: str) -> Report:
        elsewhere: str | None = ""
        while elsewhere == "":
            reply = await self._flusher.call(self._work.claim_call(self._model, self._owner, self._instance, task_id))
            claim = self._work.claim_from(reply)
            if claim is not None:
                return await self._run(claim)
            elsewhere = self._work.elsewhere_from(reply)
        if elsewhere is not None:
            self._on_requeued(self._model, FORWARDED, elsewhere)
        return {"ran": None, "why": "nothing to run" if elsewhere is None else f"passed on to slot {elsewhere}"}

    async def pass_on(self) -> None:
        """A hint came although this instance may take no work: let another one have it."""
        try:
            async with asyncio.timeout(_PASS_ON_SECONDS):
                elsewhere = await self._flusher.call(self._work.elsewhere_call(self._model, self._instance))
        except TimeoutError:
            return  # Redis is away, or this worker is about to end; the reaper hints again
        if elsewhere:
            self._on_requeued(self._model, FORWARDED, elsewhere)

    async def _run(self, claim: Claim) -> Report:
        run = Run(claim, claim.sequence, began=self._monotonic())
        run.task = asyncio.current_task()
        self._flusher.add(run)
        try:
            with structlog.contextvars.bound_contextvars(generation=claim.generation, attempt=claim.attempts):
                outcome = await self._guarded(run)
        finally:
            self._flusher.remove(run)
        seconds = round(self._monotonic() - run.began, 3)
        note = _log.debug if outcome in _QUIET else _log.info  # what went well is in Flower and in the metrics
        note("run_ended", generation=claim.generation, attempt=claim.attempts, outcome=outcome, seconds=seconds)
        return {"ran": claim.generation, "attempt": claim.attempts, "outcome": outcome, "seconds": seconds}

    async def _guarded(self, run: Run) -> str:
        """Run with the longest run's limit; a run that lost its lease or is drained ends here, cancelled by others."""
        attempt: Attempt | None = None
        try:
            async with self._company(run), asyncio.timeout(self._limits.longest_run):
                attempt = await self._prepared(run)
                await self._stream(run, attempt)
        except EngineFailure as failure:
            return await self._failed(run, attempt, failure)
        except TimeoutError:
            self._trust.doubt("longest_run")
            message = f"the run took longer than {self._limits.longest_run:g} s"
            return await self._give_up(run, attempt, "timeout", message)
        except asyncio.CancelledError:
            return await self._interrupted(run)
        except Exception as error:  # noqa: BLE001 -- a fault of ours must not hold the generation until its lease ends
            _log.error("run_failed", error=type(error).__name__)
            return await self._release(run, code="engine_error", message="the worker failed", exclude=self._instance)
        self.counts.finished += 1
        closing = attempt.close()
        verdict = attempt.verdict()
        return await self._commit(run, verdict, [*closing, attempt.end_event(verdict)])

    def _company(self, run: Run) -> AbstractAsyncContextManager[None]:
        """The last attempt waits, outside its time limit, until no other last attempt runs."""
        alone = run.claim.attempts >= self._limits.max_attempts > 1
        return self._last_chance if alone else nullcontext()

    async def _prepared(self, run: Run) -> Attempt:
        claim = run.claim
        if not claim.resumed or claim.sequence <= events.FIRST_OUTPUT:
            return Attempt(claim, Earlier(), self._tokenizer)
        while True:
            try:
                log = await self._work.log(claim.generation, events.FIRST_OUTPUT)
                return Attempt(claim, Earlier.from_log(log, self._tokenizer), self._tokenizer)
            except REDIS_AWAY:
                await asyncio.sleep(_RETRY_SECONDS)  # the time limit of the run bounds this

    async def _stream(self, run: Run, attempt: Attempt) -> None:
        if attempt.uncounted:
            await self._hold_against_context(run, attempt)
        if attempt.left <= 0:
            attempt.exhausted()
            return
        request = self._request(run, attempt)
        self.counts.started += 1
        limits = self._limits
        stream = self._horse.client.stream(
            request,
            first_token_timeout=limits.first_token,
            token_timeout=limits.between_tokens,
            rest=limits.rest,
        )
        first = True
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                self._horse.token_seen()
                self._failed_in_row.clear()
                self.counts.tokens += len(chunk.token_ids)
                if chunk.prompt_token_ids and attempt.uncounted:
                    attempt.fit(len(chunk.prompt_token_ids), limits.context_length)
                shown = attempt.take(chunk)
                run.prompt_ids = attempt.prompt_ids
                if shown:
                    run.pending += shown
                    if first:
                        first = False
                        self._flusher.hurry()
                if attempt.stopped:
                    return

    def _request(self, run: Run, attempt: Attempt) -> EngineRequest:
        return attempt.request(self._model, self._fields, self._salt(run.claim.tenant))

    async def _hold_against_context(self, run: Run, attempt: Attempt) -> None:
        """Count the prompt where the API could not, before it takes a place of the instance."""
        prompt = len(run.claim.prompt_token_ids) or await self._horse.client.count(self._request(run, attempt))
        if prompt is not None:
            attempt.fit(prompt, self._limits.context_length)

    def _salt_of(self, tenant: str) -> str:
        return hmac.new(self._salt_key, tenant.encode(), hashlib.sha256).hexdigest()

    async def _failed(self, run: Run, attempt: Attempt | None, failure: EngineFailure) -> str:
        kind = type(failure).__name__
        _log.warning("engine_failure", kind=kind, fault=failure.fault)
        if isinstance(failure, EngineRefused):
            return await self._give_up(run, attempt, failure.code, failure.message)
        if isinstance(failure, EngineOutOfMemory):
            return await self._give_up(run, attempt, "engine_out_of_memory", "the engine ran out of memory on this job")
        if isinstance(failure, EngineServerError):
            self._horse.suspect(kind)
            self._count_server_error(run)
            return await self._release(run, code="engine_error", message="the engine failed", exclude=self._instance)
        self._trust.doubt(kind)
        # Where nobody listened the request did no harm and had no chance: no attempt.
        counted = not isinstance(failure, EngineUnreachable)
        message = "the engine stalled, died or broke off its stream"
        return await self._release(run, counted=counted, code="worker_lost", message=message, exclude=self._instance)

    def _count_server_error(self, run: Run) -> None:
        """An engine that fails one generation after the other does not come right by itself, whatever probes say."""
        self._failed_in_row.add(run.id)
        if len(self._failed_in_row) >= self._limits.server_errors:
            self._failed_in_row.clear()
            self._horse.replace("server_errors")

    async def _give_up(self, run: Run, attempt: Attempt | None, code: str, message: str) -> str:
        """End the job as failed; what was streamed stays readable."""
        self.counts.aborted += 1
        spent = attempt.spent() if attempt else Usage(0, 0)
        verdict = Verdict("failed", spent, code=code, message=message)
        return await self._commit(run, verdict, [events.end("failed", code=code, message=message)])

    async def _interrupted(self, run: Run) -> str:
        """Cancelled: by a lost lease or a cancelled job (nothing may be written), or by a drain (hand it back)."""
        self.counts.aborted += 1
        if not run.draining:
            return "lost"
        return await self._release(run, counted=False, code="worker_lost", message="the worker was stopped")

    async def _commit(self, run: Run, verdict: Verdict, closing: list[str]) -> str:
        await self._flusher.settle(run)
        if run.lost:
            return "lost"
        call = self._work.commit_call(run.claim, run.sequence, verdict, [*run.pending, *closing])
        reply = await self._flusher.call(call)
        if reply and verdict.joinable and run.claim.cache:
            self._on_answer(run.claim, verdict, self._monotonic() - run.began)
        if reply == 2:  # noqa: PLR2004 -- the script's word for "there is a webhook to send"
            self._on_webhook()
        return verdict.code or verdict.status if reply else "lost"

    async def _release(self, run: Run, *, code: str, message: str, counted: bool = True, exclude: str = "") -> str:
        """Write what has come, then hand the generation back to the line."""
        await self._flusher.settle(run)
        if run.lost:
            return "lost"
        if run.pending:
            await self._flusher.call(self._work.append_call(run.claim, run.sequence, run.pending, run.prompt_ids))
        call = self._work.release_call(run.claim, counted=counted, code=code, message=message, exclude=exclude)
        outcome, model, slot = await self._flusher.call(call)
        if outcome == "requeued":
            self._on_requeued(model, run.claim.generation, slot or None)
        return str(outcome)
