"""The engine behind the server: its sequence slots, its counts, its faults and its pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from model_pool.servers.face.errors import Refused
from model_pool.servers.face.slots import Slots
from model_pool.servers.face.speaker import Delta
from model_pool.servers.paced import answer as answers
from model_pool.servers.paced import chat, faults
from model_pool.servers.paced.errors import BrokenOff
from model_pool.servers.paced.pace import paced
from model_pool.servers.paced.parts import PartSpeaker
from model_pool.servers.paced.tokenizer import WordTokenizer
from model_pool.servers.paced.vocabulary import UnknownTokenError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from model_pool.servers.face.ask import Ask
    from model_pool.servers.paced.answer import Answer
    from model_pool.servers.paced.directives import Directives
    from model_pool.servers.paced.vocabulary import Vocabulary

_SERVER_ERROR = 500


@dataclass(frozen=True)
class EngineConfig:
    """Default pace in seconds, sequences at once, and the longest prompt and answer together in tokens."""

    ttft: float
    tpot: float
    max_concurrency: int
    context_length: int


class PacedEngine:
    """Answers requests one token after another; those beyond `max_concurrency` wait in the order of their arrival."""

    def __init__(self, config: EngineConfig, vocabulary: Vocabulary) -> None:
        self.config = config
        self.tokenizer = WordTokenizer(vocabulary)
        self.context_length = config.context_length
        self.slots = Slots(config.max_concurrency)
        self._vocabulary = vocabulary
        self._broken = False

    def plan(self, ask: Ask) -> Answer:
        """What will be said, checked before anything starts.

        Raises:
            Refused: prompt and budget exceed the context, an id or a directive is unknown, or `{{fail=4xx}}`.
        """
        self._check_context(ask)
        try:
            conversation = chat.read_back(ask.prompt_ids, self._vocabulary)
        except UnknownTokenError as error:
            raise Refused(400, str(error), param="prompt") from None
        fill = (ask.budget or 0) + len(conversation.begun) if ask.ignore_eos and ask.budget else None
        answer = answers.plan(conversation, self._vocabulary, fill=fill)
        if answer.directives.fail is not None and answer.directives.fail < _SERVER_ERROR:
            raise Refused(answer.directives.fail, "refused as the prompt directs")
        return answer

    def fail_if_directed(self, said: Directives) -> None:
        """Stage the faults that show before the first byte of an answer; `{{crash}}` ends the process here.

        Raises:
            Refused: `{{sticky}}`, now or before in this process; `{{oom}}`; `{{fail=5xx}}`.
        """
        if said.crash:
            faults.crash()
        self._broken = self._broken or said.sticky
        if self._broken:
            raise Refused(500, "EngineCore encountered an issue. See stack trace (above) for the root cause.")
        if said.oom:
            raise Refused(500, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has no memory left.")
        if said.fail is not None:
            raise Refused(said.fail, "failed as the prompt directs")

    async def deltas(self, ask: Ask, plan: Answer) -> AsyncIterator[list[Delta]]:
        """The answer, in lists of what is due at the same moment; the last delta has a finish reason.

        Raises:
            BrokenOff: the stream is to be cut here.
        """
        answer, said = plan, plan.directives
        await faults.stand_still(said)
        tokens = answer.whole[: ask.budget]
        ends = "length" if said.length or len(tokens) < len(answer.whole) else "stop"
        speaker = PartSpeaker(ask, answer, self._vocabulary, len(tokens), ends)
        breaks_at = answer.breaks_at if answer.breaks_at is not None and answer.breaks_at < len(tokens) else None
        async for due in paced(tokens[:breaks_at], *self._pace(said)):
            deltas = speaker.say(due)
            yield deltas
            if deltas[-1].finish_reason is not None:
                return
        if breaks_at is not None:
            raise BrokenOff
        yield [Delta("", (), speaker.finish_reason)]

    def _pace(self, said: Directives) -> tuple[float, float]:
        config = self.config
        return (
            config.ttft if said.ttft is None else said.ttft / 1000,
            config.tpot if said.tpot is None else said.tpot / 1000,
        )

    def _check_context(self, ask: Ask) -> None:
        prompt, limit = len(ask.prompt_ids), self.config.context_length
        if prompt + (ask.budget or 1) > limit:
            raise Refused(
                400,
                f"This model's maximum context length is {limit} tokens. However, you requested {ask.budget or 1} "
                f"output tokens and your prompt contains {prompt} input tokens. Please reduce the length of either.",
                param="input_tokens",
            )
