"""What Posthouse relies on, asked of every engine that runs here: one suite, real servers, the real client."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from model_pool import errors
from model_pool.client import Chunk, Continuation, EngineRequest
from tests.integration.model_pool.conformance.subjects import CAPACITY
from tests.support.waiting import until

_LIMIT = 120.0


def request(text, continuation=None, *, salt=None, **params):
    fields = {"temperature": 0, "max_tokens": 12, **params}
    return EngineRequest("demo", ({"role": "user", "content": text},), fields, "conformance", continuation, salt)


async def chunks_of(client, ask, into=None) -> list[Chunk]:
    chunks = [] if into is None else into
    async with aclosing(client.stream(ask, first_token_timeout=_LIMIT, token_timeout=_LIMIT)) as stream:
        async for chunk in stream:
            chunks.append(chunk)
    return chunks


def answer(served, text, continuation=None, **params) -> list[Chunk]:
    return served.call(chunks_of(served.client, request(text, continuation, **params)))


def text_of(chunks):
    return "".join(chunk.text for chunk in chunks)


def ids_of(chunks):
    return tuple(token_id for chunk in chunks for token_id in chunk.token_ids)


def finish_of(chunks):
    (reason,) = (chunk.finish_reason for chunk in chunks if chunk.finish_reason)
    return reason


def usage_of(chunks):
    (usage,) = (chunk.usage for chunk in chunks if chunk.usage)
    return usage


async def opened(client, ask, tokens=2):
    """A stream that has given some tokens and is held open."""
    stream = client.stream(ask, first_token_timeout=_LIMIT, token_timeout=_LIMIT)
    seen = 0
    async for chunk in stream:
        seen += chunk.is_progress
        if seen == tokens:
            return stream
    raise AssertionError("the stream ended too soon to be left")


def test_streams_token_by_token(served):
    """Tokens come one after the other and not all at the end, and exactly one chunk says why it ended."""
    chunks = answer(served, served.subject.long)

    assert len([chunk for chunk in chunks if chunk.text]) >= 6
    assert finish_of(chunks) == "length"


def test_same_question_same_answer_at_temperature_zero(served):
    """What the response cache and every continuation rest on."""
    assert text_of(answer(served, served.subject.long)) == text_of(answer(served, served.subject.long)) != ""


def test_usage_is_told_at_the_end(served):
    chunks = answer(served, served.subject.long, max_tokens=7)
    usage = usage_of(chunks)

    assert usage.completion_tokens == 7
    assert usage.prompt_tokens > 5
    if served.dialect.token_ids:
        assert len(ids_of(chunks)) == 7
        (prompt_ids,) = (chunk.prompt_token_ids for chunk in chunks if chunk.prompt_token_ids)
        assert usage.prompt_tokens == len(prompt_ids)


@pytest.mark.parametrize("budget", [1, 5])
def test_budget_is_kept_to_the_token(served, budget):
    chunks = answer(served, served.subject.long, max_tokens=budget)

    assert (usage_of(chunks).completion_tokens, finish_of(chunks)) == (budget, "length")


def test_stop_string_ends_the_answer(served):
    """With the string in the text where the engine can leave it there, else cut before it; never with more behind."""
    whole = text_of(answer(served, served.subject.long, max_tokens=24))
    stop = whole[len(whole) // 2 :][:6]
    before = whole[: whole.index(stop)]

    chunks = answer(served, served.subject.long, max_tokens=24, stop=[stop])

    assert finish_of(chunks) == "stop"
    assert text_of(chunks).rstrip() == (before + stop if served.dialect.stop_in_output else before).rstrip()
    assert usage_of(chunks).completion_tokens < 24


def test_answers_run_side_by_side(served):
    """All get their first token before the first of them has ended: batches, not a queue."""

    async def story():
        ends: list[str] = []

        async def one(number):
            seen: list[Chunk] = []
            ask = request(f"{number} {served.subject.long}", max_tokens=24)
            async with aclosing(served.client.stream(ask, first_token_timeout=_LIMIT, token_timeout=_LIMIT)) as stream:
                async for chunk in stream:
                    if chunk.is_progress and not any(c.is_progress for c in seen):
                        ends.append("first")
                    seen.append(chunk)
            ends.append("end")
            return seen

        return ends, await asyncio.gather(*(one(n) for n in range(CAPACITY)))

    order, answers = served.call(story())

    assert order[:CAPACITY] == ["first"] * CAPACITY
    assert [usage_of(chunks).completion_tokens for chunks in answers] == [24] * CAPACITY


def test_hang_ups_free_their_places(served):
    """All places and the spare one are taken by long answers and left: the next ones run at once, not after them."""

    async def story():
        ask = request(served.subject.long, max_tokens=700)
        streams = await asyncio.gather(*(opened(served.client, ask) for _ in range(CAPACITY + 1)))
        for stream in streams:
            await stream.aclose()
        async with asyncio.timeout(_LIMIT / 2):
            short = request(served.subject.long, max_tokens=3)
            return await asyncio.gather(*(chunks_of(served.client, short) for _ in range(CAPACITY)))

    answers = served.call(story())

    assert [usage_of(chunks).completion_tokens for chunks in answers] == [3] * CAPACITY
    if served.engine.logs_stats:
        served.call(counted(served.client, in_flight=0, aborted=CAPACITY + 1))


async def counted(client, **expected):
    """The server's counts reach these (aborts: at least)."""

    async def reached():
        stats = await client.stats()
        return stats.in_flight == expected["in_flight"] and stats.aborted >= expected["aborted"]

    await until(reached, what=f"the counts reach {expected}")


def test_prompt_that_does_not_fit_is_refused_as_such(served):
    """The client's mistake, with the code that it gets to see, and the instance is not to blame."""
    with pytest.raises(errors.EngineRefused) as refusal:
        answer(served, "many words " * 1200)

    assert (refusal.value.code, refusal.value.fault) == ("context_length_exceeded", False)


def test_messages_of_no_known_role_are_refused(served):
    ask = EngineRequest("demo", ({"role": "nobody", "content": "x"},), {"max_tokens": 2})
    if {served.subject.engine, served.subject.behind} & {"vllm", "llama_cpp"}:
        pytest.skip("it leaves roles to the chat template; Posthouse has checked them before")
    with pytest.raises(errors.EngineRefused) as refusal:
        served.call(chunks_of(served.client, ask))
    assert refusal.value.code == "invalid_prompt"


def test_continues_by_token_ids(served):
    """From any token on, as if it had never been interrupted, and the budget is what is left."""
    if not served.dialect.token_ids:
        pytest.skip("it streams no token ids")
    whole = answer(served, served.subject.long, max_tokens=24)
    (prompt_ids,) = (chunk.prompt_token_ids for chunk in whole if chunk.prompt_token_ids)
    told, at = ids_of(whole), 10
    begun = Continuation(prompt_ids, told[:at], "unused")

    rest = answer(served, served.subject.long, begun, max_tokens=24 - at)

    assert ids_of(rest) == told[at:]
    assert text_of(whole).endswith(text_of(rest))
    assert usage_of(rest).completion_tokens == 24 - at


def test_continues_by_text(served):
    """The fallback: what has been said is not said again, and the answer goes on."""
    if not served.dialect.continue_message:
        pytest.skip("it cannot continue a message")
    whole = text_of(answer(served, served.subject.long, max_tokens=24))
    begun = whole[: len(whole) // 2].rsplit(" ", 1)[0]

    rest = text_of(answer(served, served.subject.long, Continuation(text=begun), max_tokens=8))

    assert rest.strip()
    assert not rest.strip().startswith(begun.strip()[:12])
    assert "<|im" not in rest


def test_characters_are_never_cut(served):
    """Bytes of one character in several tokens come out as that character, whatever the chunks."""
    text = text_of(answer(served, served.subject.utf8, max_tokens=60))

    assert text.encode("utf-8").decode("utf-8") == text
    assert "\ufffd" not in text
    if served.subject.engine == "paced":
        assert text == "🐎 驿站换马 🐎 žluťoučký kůň"[: len(text)]


def test_sampling_differs_from_greedy(served):
    """A temperature of one request holds for this request."""
    if served.subject.engine == "paced":
        pytest.skip("it echoes")
    greedy = text_of(answer(served, served.subject.long, max_tokens=24))
    sampled = {
        text_of(answer(served, served.subject.long, max_tokens=24, temperature=1.5, top_p=1.0)) for _ in range(3)
    }

    assert len(sampled) > 1
    assert text_of(answer(served, served.subject.long, max_tokens=24)) == greedy


def test_server_lives_after_all_of_this(served):
    """Nothing above has cost a restart."""
    served.call(served.client.probe(timeout=60))
    assert served.instance.restarts == 0
