"""One attempt at a generation: what an earlier attempt has left, what is asked of the engine, what came of it.

Pure of Redis and of processes; `inference` moves the pieces.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.jobs import events
from app.jobs.generation import UNCOUNTED, Claim, Result, Usage
from app.jobs.output import MESSAGE, chat_call
from app.jobs.work import Verdict
from app.services import budget
from model_pool import exchange
from model_pool.errors import EngineRefused
from workers.assembly import Assembler, Piece
from workers.composing import Composer
from workers.logprobs import clean

# vLLM's text lags its ids by a stop string's length unless the string is left in; trimming is ours.
_STOP_STAYS = {"include_stop_str_in_output": True}


@dataclass(frozen=True)
class Earlier:
    """What earlier attempts have put into the log.

    Attributes:
        opened: the output item has been announced.
        text, token_ids: what was shown; ids are complete, and those of the tokenizer at hand, only if `by_ids`.
        tokens: of what was shown; where an engine gives no ids one for each delta, which is the least it can be.
    """

    opened: bool = False
    text: str = ""
    token_ids: tuple[int, ...] = ()
    by_ids: bool = False
    tokens: int = 0

    @classmethod
    def from_log(cls, log: Sequence[events.Event], tokenizer: str = "") -> Earlier:
        """What stands in the log, for an instance with this tokenizer (see `model_pool.revision.tokenizer_of`)."""
        deltas = [e for e in log if e.kind == "delta"]
        ours = events.tokenizers_of(deltas) == {tokenizer}
        return cls(
            opened=any(e.kind == "part" for e in log),
            text=events.text_of(deltas),
            token_ids=events.token_ids_of(deltas),
            by_ids=ours and all(e.body.get("i") for e in deltas),
            tokens=sum(len(e.body.get("i") or ()) or 1 for e in deltas),
        )


class Attempt:
    """Follows one stream from the engine and says what to log and how it ended.

    Args:
        tokenizer: whose ids the engine gives.
    """

    def __init__(self, claim: Claim, earlier: Earlier, tokenizer: str = "") -> None:
        self._claim = claim
        self._earlier = earlier
        params = claim.request.params
        stop = params.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        self._assembler = Assembler(stops)
        self._thoughts = Assembler(stops)
        self._composer = Composer(
            opened=earlier.opened, text=earlier.text, calls=f"call_{claim.generation[4:]}", tokenizer=tokenizer
        )
        self._budget = int(params["max_tokens"])
        self._uncounted = str(params.get(UNCOUNTED, ""))
        self._last: list[str] = []  # what a stop string has ended; see `take`
        self._made = 0  # tokens of this attempt
        self._reasoned = 0  # those of them that were reasoning
        self._usage: exchange.Usage | None = None
        self._finish: str | None = None
        # Where nothing was shown they may be those of an instance with another tokenizer; the engine tells them again.
        self.prompt_ids: tuple[int, ...] = claim.prompt_token_ids if earlier.text else ()

    @property
    def left(self) -> int:
        """Tokens that this attempt may still emit."""
        return self._budget - self._earlier.tokens

    @property
    def uncounted(self) -> bool:
        """Whether nobody has held prompt and budget against the context yet."""
        return bool(self._uncounted)

    def fit(self, prompt: int, limit: int) -> None:
        """Hold a prompt of `prompt` tokens and the budget against a context of `limit`; once.

        vLLM shortens an answer that does not fit without a word, so what was asked for is refused here; a budget that
        nobody asked for becomes what is left.

        Raises:
            EngineRefused: `context_length_exceeded`, with the numbers.
        """
        asked = self._budget if self._uncounted == "asked" else None
        self._uncounted = ""
        if prompt + (asked or 1) > limit:
            message = budget.too_long(limit, prompt, asked, param=None).message
            raise EngineRefused(message, status=400, code="context_length_exceeded")
        self._budget = min(self._budget, limit - prompt)

    def request(self, model: str, fields: frozenset[str], salt: str | None) -> exchange.EngineRequest:
        """What to ask the engine; `fields` is its written allow-list."""
        request = self._claim.request
        params: dict[str, Any] = {k: v for k, v in request.params.items() if k in fields}
        params["max_tokens"] = self.left
        if params.get("min_tokens"):
            params["min_tokens"] = max(0, params["min_tokens"] - self._earlier.tokens)
        if params.get("stop"):
            params |= _STOP_STAYS
        return exchange.EngineRequest(
            model=model,
            messages=tuple(request.messages),
            params=params,
            request_id=f"{self._claim.generation}-{self._claim.fence}",
            continuation=self._continuation(),
            cache_salt=salt,
        )

    def _continuation(self) -> exchange.Continuation | None:
        earlier = self._earlier
        if not earlier.text:
            return None
        if earlier.by_ids and self._claim.prompt_token_ids:
            return exchange.Continuation(self._claim.prompt_token_ids, earlier.token_ids, earlier.text)
        return exchange.Continuation(text=earlier.text)

    def take(self, chunk: exchange.Chunk) -> list[str]:
        """The events to log for one chunk, as JSON.

        What a stop string has ended waits for `close`, to be logged in one step with the end: its ids are the stop
        string's too, so after the death of a worker in between another would go on behind the string.
        """
        shown = self._taken(chunk)
        if not self.stopped:
            return shown
        self._last += shown
        return []

    def _taken(self, chunk: exchange.Chunk) -> list[str]:
        if chunk.prompt_token_ids and not self.prompt_ids:
            self.prompt_ids = chunk.prompt_token_ids
        made = len(chunk.token_ids) or (1 if chunk.text or chunk.reasoning or chunk.tool_calls else 0)
        self._made += made
        self._reasoned += made if chunk.reasoning else 0
        self._usage = chunk.usage or self._usage
        self._finish = chunk.finish_reason or self._finish
        if chunk.reasoning or chunk.tool_calls:
            return self._special(chunk)
        if not (chunk.text or chunk.token_ids):
            return []
        thought = self._thought(self._thoughts.finish()) if chunk.text else []
        return thought + self._shown(self._assembler.feed(chunk.text, chunk.token_ids, clean(chunk.logprobs)))

    def _special(self, chunk: exchange.Chunk) -> list[str]:
        """A chunk that is not, or not only, text; its ids and log-probabilities are never needed."""
        shown = self._thought(self._thoughts.feed(chunk.reasoning)) if chunk.reasoning else []
        if chunk.text or chunk.tool_calls:
            shown += self._thought(self._thoughts.finish())
        if chunk.text:
            shown += self._shown(self._assembler.feed(chunk.text))
        if chunk.tool_calls:
            shown += self._shown(self._assembler.finish())
        return shown + [event for delta in chunk.tool_calls for event in self._composer.call(delta)]

    @property
    def stopped(self) -> bool:
        """A stop string was met: nothing of what the engine still sends is wanted."""
        return self._assembler.stopped or self._thoughts.stopped

    def close(self) -> list[str]:
        """The events that complete the text once the engine has ended."""
        shown = [*self._thought(self._thoughts.finish()), *self._shown(self._assembler.finish())]
        return [*self._last, *shown, *self._composer.close()]

    def verdict(self) -> Verdict:
        """How the generation ended: completed by stop or tool calls, incomplete by length. After `close`."""
        finish = "stop" if self.stopped else (self._finish or "stop")
        status = "incomplete" if finish in {"length", "content_filter"} else "completed"
        usage = self._total()
        output = self._composer.output
        plain = all(item.kind == MESSAGE and item.logprobs is None for item in output.items)
        items = [] if plain else [item.to_dict() for item in output.items]
        result = Result(output.text, finish, usage, [chat_call(call) for call in output.calls], items).to_json()
        # What the cache would not keep nobody may join either: whoever asks next asks the engine.
        good = finish == "stop" and not self._earlier.text and bool(output.text.strip())
        return Verdict(status, usage, result, joinable=good)

    def end_event(self, verdict: Verdict) -> str:
        finish = json.loads(verdict.result)["finish_reason"] if verdict.result else None
        return events.end(verdict.status, finish=finish, code=verdict.code or None, message=verdict.message or None)

    def spent(self) -> Usage:
        """Tokens of a run that ended without a result."""
        return self._total()

    def exhausted(self) -> None:
        """Nothing is left of the budget: the answer ends as length without asking the engine."""
        self._finish = "length"

    def _total(self) -> Usage:
        """The input once, the output over all attempts."""
        earlier = self._earlier.tokens
        usage = self._usage
        if usage is None:
            return Usage(len(self.prompt_ids), earlier + self._made, reasoning_tokens=self._reasoned)
        prompt = usage.prompt_tokens - earlier  # the engine was given what had been said as part of its prompt
        made = self._made if self.stopped or not usage.completion_tokens else usage.completion_tokens
        reasoned = usage.reasoning_tokens or self._reasoned
        asked = len(self.prompt_ids) or prompt
        return Usage(asked, earlier + made, min(usage.cached_tokens, asked), reasoned)

    def _shown(self, piece: Piece | None) -> list[str]:
        return [] if piece is None else self._composer.text(piece)

    def _thought(self, piece: Piece | None) -> list[str]:
        return [] if piece is None else self._composer.reasoning(piece)
