"""What is asked in the proof with a real model, and what the model says to it while nobody disturbs it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_pool.client import Chunk, EngineClient, EngineRequest

LEAST, MOST = 60, 150  # tokens of an answer
_PATIENCE = 300.0  # seconds for a token on a busy machine

_ASKED = (
    "Write a short story about a horse that carries letters through the snow.",
    "Explain step by step how rain forms.",
    "Give me a recipe for vegetable soup.",
    "Describe a market in a small town in the morning.",
    "Explain to a child what a black hole is.",
    "List ten fruits with one sentence about each.",
    "Write a letter to a friend about a long journey by train.",
    "How does a bicycle stay upright?",
    "Tell me about the history of paper.",
    "What should I pack for a week in the mountains?",
    "Write a Python function that counts the words of a text, and explain it.",
    "Describe the life of a honey bee.",
    "Why is the sky blue, and why is it red in the evening?",
    "Write a dialogue between a baker and a customer.",
    "Explain what inflation is and what it does to savings.",
    "Tell a fable about a fox and a hedgehog.",
    "How is cheese made?",
    "Describe a thunderstorm at sea from the view of a sailor.",
    "Give five tips for learning a new language.",
    "What does a volcano look like inside?",
    "Write a poem about a lighthouse in winter.",
    "Explain how a vaccine works.",
    "Describe how to plant an apple tree.",
    "Write the beginning of a detective story that is set in a library.",
    "What is the difference between a comet and an asteroid?",
    "How do I write a good job application?",
    "Tell me about the city of Prague.",
    "Explain how a computer stores pictures.",
    "Describe the four seasons in one paragraph each.",
    "What are the rules of chess?",
)


@dataclass(frozen=True)
class Question:
    """A prompt and its budget. The least length is the same for all: a short answer has no middle to be cut in."""

    number: int
    prompt: str
    budget: int

    @property
    def engine_fields(self) -> dict[str, Any]:
        """Sampling parameters as an engine takes them."""
        return {"temperature": 0, "max_tokens": self.budget, "min_tokens": LEAST}


@dataclass(frozen=True)
class Undisturbed:
    """The engine's own answer, asked at its socket with log-probabilities.

    Attributes:
        token_ids: as the engine gives them, the end of the answer included.
        gaps: for each token, by how much the two best log-probabilities differ there.
    """

    text: str
    prompt_tokens: int
    output_tokens: int
    token_ids: tuple[int, ...]
    gaps: tuple[float, ...]
    finish: str


def draw(count: int, chance: random.Random) -> list[Question]:
    """Different questions."""
    if count > len(_ASKED):
        raise ValueError(f"there are {len(_ASKED)} questions, not {count}")
    return [
        Question(number, prompt, chance.randint(LEAST, MOST))
        for number, prompt in enumerate(chance.sample(_ASKED, count), 1)
    ]


def undisturbed(questions: Sequence[Question], model: str, sockets: Sequence[Path]) -> list[Undisturbed]:
    """Ask every instance for its share at its own socket."""
    return asyncio.run(_all(questions, model, sockets))


async def _all(questions: Sequence[Question], model: str, sockets: Sequence[Path]) -> list[Undisturbed]:
    many = len(sockets)
    shares = await asyncio.gather(*(_share(questions[n::many], model, socket) for n, socket in enumerate(sockets)))
    return [shares[n % many][n // many] for n in range(len(questions))]


async def _share(questions: Sequence[Question], model: str, socket: Path) -> list[Undisturbed]:
    client = EngineClient(model=model, uds=socket)
    try:
        return await asyncio.gather(*(_one(client, question, model) for question in questions))
    finally:
        await client.close()


async def _one(client: EngineClient, question: Question, model: str) -> Undisturbed:
    fields = {**question.engine_fields, "logprobs": True, "top_logprobs": 2}
    request = EngineRequest(model, ({"role": "user", "content": question.prompt},), fields)
    async with aclosing(client.stream(request, first_token_timeout=_PATIENCE, token_timeout=_PATIENCE)) as stream:
        return _read([chunk async for chunk in stream])


def _read(chunks: Sequence[Chunk]) -> Undisturbed:
    usage = next(chunk.usage for chunk in chunks if chunk.usage)
    token_ids = tuple(i for chunk in chunks for i in chunk.token_ids)
    entries = [entry for chunk in chunks for entry in chunk.logprobs]
    assert len(entries) == len(token_ids) == usage.completion_tokens, "vLLM counts otherwise than it streams"
    return Undisturbed(
        text="".join(chunk.text for chunk in chunks),
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        token_ids=token_ids,
        gaps=tuple(_gap(entry["top_logprobs"]) for entry in entries),
        finish=next(chunk.finish_reason for chunk in chunks if chunk.finish_reason),
    )


def _gap(best: Sequence[dict[str, Any]]) -> float:
    first, second = sorted((float(entry["logprob"]) for entry in best), reverse=True)[:2]
    return first - second
