"""Speaks an answer's parts one after another: reasoning, text, calls of tools; log-probabilities along with each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from model_pool.servers.face.speaker import Delta, Speaker
from model_pool.servers.paced.detokenizer import Detokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from model_pool.servers.face.ask import Ask
    from model_pool.servers.paced.answer import Answer, ToolCall
    from model_pool.servers.paced.vocabulary import Vocabulary

_NOT_FINITE = (-math.inf, math.nan)


class PartSpeaker:
    """A delta for each token of `Answer.whole`, in order.

    Args:
        ask: the request, for its stop strings and log-probabilities.
        answer: what to say.
        vocabulary: the shared table of words.
        total: how many tokens will be said at the most.
        ends: why the answer ends then: `stop` or `length`.
    """

    def __init__(self, ask: Ask, answer: Answer, vocabulary: Vocabulary, total: int, ends: str) -> None:
        self._ask = ask
        self._answer = answer
        self._vocabulary = vocabulary
        self.finish_reason = "tool_calls" if answer.calls and ends == "stop" else ends
        self._before = len(answer.reasoning)
        self._text = len(answer.token_ids)
        self._decoder = Detokenizer(vocabulary)
        self._arguments = [
            (n, call, at == 0) for n, call in enumerate(answer.calls) for at in range(len(call.token_ids))
        ]
        decoder = Detokenizer(vocabulary)
        decoder.text(answer.begun)  # half a character at its end is completed
        # Only the last token of all has a reason: with more to come the text never reaches its end.
        more = 1 if answer.calls else 0
        self._speaker = Speaker(ask, decoder, total - self._before + more, ends)
        self._total, self._said = total, 0

    def say(self, token_ids: Iterable[int]) -> list[Delta]:
        """Deltas of the next tokens; none follows one with a finish reason."""
        deltas: list[Delta] = []
        for token_id in token_ids:
            deltas.append(self._logged(self._say_one(token_id), token_id))
            if deltas[-1].finish_reason is not None:
                break
        return deltas

    def _say_one(self, token_id: int) -> Delta:
        place, self._said = self._said, self._said + 1
        last = self.finish_reason if self._said == self._total else None
        if place < self._before:
            return Delta("", (token_id,), last, reasoning=self._decoder.step(token_id))
        if place < self._before + self._text:
            return self._speaker.say((token_id,))[0]
        number, call, first = self._arguments[place - self._before - self._text]
        return Delta("", (token_id,), last, tool_calls=self._call(number, call, token_id, first=first))

    def _call(self, number: int, call: ToolCall, token_id: int, *, first: bool) -> tuple[dict[str, Any], ...]:
        """As vLLM: id and name first, then the arguments in fragments."""
        fragment = {"index": number, "function": {"arguments": self._decoder.step(token_id)}}
        if not first:
            return (fragment,)
        begin = {"index": number, "id": f"call_{len(self._ask.prompt_ids)}_{number}", "type": "function"}
        return ({**begin, "function": {"name": call.name, "arguments": ""}}, fragment)

    def _logged(self, delta: Delta, token_id: int) -> Delta:
        if not self._ask.logprobs:
            return delta
        return delta._replace(logprobs=(self._logprob(token_id),))

    def _logprob(self, token_id: int) -> dict[str, Any]:
        """The token itself is the likeliest, the others are made up; every value follows from the id alone."""
        text = chr(token_id) if token_id < 128 else self._vocabulary.word(token_id) or "\ufffd"  # noqa: PLR2004 -- ASCII
        staged = self._answer.directives.logprobs == "inf"
        value = _NOT_FINITE[token_id % 2] if staged else -0.01 * (token_id % 10 + 1)
        others = [(f"{text}~{n}", -math.inf if staged else value - n) for n in range(1, self._ask.top_logprobs)]
        top = [(text, value), *others][: self._ask.top_logprobs]
        return {**_entry(text, value), "top_logprobs": [_entry(*each) for each in top]}


def _entry(text: str, value: float) -> dict[str, Any]:
    return {"token": text, "logprob": value, "bytes": list(text.encode())}
