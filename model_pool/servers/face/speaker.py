"""From the tokens of an answer to the deltas of its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from model_pool.servers.face.stops import StopWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model_pool.servers.face.ask import Ask
    from model_pool.servers.face.tokenizer import Decoder


class Delta(NamedTuple):
    """What one token adds. Its text may come later than the token: stop strings are held back, characters split.

    A token adds to one of text, reasoning and calls of tools (pieces in OpenAI's form); `logprobs` has its entry where
    they are asked for.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None = None
    stop_reason: str | None = None
    reasoning: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    logprobs: tuple[dict[str, Any], ...] = ()


class Speaker:
    """Speaks one answer.

    Args:
        ask: the request, for its stop strings.
        decoder: what has been fed with the part of the answer that somebody has sent before, if any.
        total: how many tokens will be said at the most.
        finish_reason: why the answer ends after `total` tokens.
    """

    def __init__(self, ask: Ask, decoder: Decoder, total: int, finish_reason: str) -> None:
        self._decoder = decoder
        self._watch = StopWatch(ask.stops, include=ask.include_stop) if ask.stops else None
        self._left = total
        self.finish_reason = finish_reason

    def say(self, token_ids: Sequence[int]) -> list[Delta]:
        """A delta for each token; none follows one with a finish reason."""
        deltas: list[Delta] = []
        for token_id in token_ids:
            deltas.append(self._say_one(token_id))
            if deltas[-1].finish_reason is not None:
                break
        return deltas

    def end(self, token_ids: Sequence[int], finish_reason: str) -> Delta:
        """The last delta of an answer that the model ended itself, by tokens without a text."""
        text = self._watch.take(finished=True) if self._watch is not None else ""
        return Delta(text, tuple(token_ids), finish_reason)

    def _say_one(self, token_id: int) -> Delta:
        self._left -= 1
        text = self._decoder.step(token_id)
        last = self.finish_reason if self._left == 0 else None
        if self._watch is None:
            return Delta(text, (token_id,), last)
        stop = self._watch.add(text)
        finish = "stop" if stop is not None else last
        return Delta(self._watch.take(finished=finish is not None), (token_id,), finish, stop)
