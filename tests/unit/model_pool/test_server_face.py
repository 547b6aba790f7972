"""What our own servers share: chat templates, sampling fields, the speaker of an answer, its engine."""

from __future__ import annotations

import asyncio
import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from model_pool.servers.face import sampling
from model_pool.servers.face.ask import Ask, from_chat, from_completion
from model_pool.servers.face.chat_template import ChatTemplate
from model_pool.servers.face.errors import Refused
from model_pool.servers.face.model_engine import Batch, ModelEngine
from model_pool.servers.face.model_tokenizer import ModelTokenizer
from model_pool.servers.face.sampling import Sampling

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
USER = {"role": "user", "content": "hi"}


def bytes_tokenizer():
    """A token for each byte, as byte-level BPE without merges has them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE({char: n for n, char in enumerate(alphabet)}, []))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    return ModelTokenizer(tokens, ChatTemplate(TEMPLATE, {}))


class Script:
    """A source that gives what it is told to give."""

    def __init__(self, *batches: Batch) -> None:
        self.batches = batches
        self.orders = []
        self.cancelled = []

    def start(self, order):
        self.orders.append(order)
        for batch in self.batches:
            order.deliver(batch)

    def cancel(self, order):
        self.cancelled.append(order)


def engine_of(source, **limits: int):
    return ModelEngine(bytes_tokenizer(), source, **{"context_length": 64, "max_concurrency": 2, **limits})


def deltas_of(engine, ask):
    async def story():
        return [delta async for due in engine.deltas(ask, engine.plan(ask)) for delta in due]

    return asyncio.run(story())


def ids(text):
    return tuple(bytes_tokenizer().encode(text))


def test_template_opens_the_assistants_turn():
    assert ChatTemplate(TEMPLATE, {}).render([USER], generation_prompt=True, continue_final=False) == (
        "<user>hi<end><assistant>"
    )


@pytest.mark.parametrize("begun", ["so far", "so far ", " so far"])
def test_continued_message_is_left_open(begun):
    """Even where the template trims, the prompt ends with what has been said."""
    said = [USER, {"role": "assistant", "content": begun}]
    text = ChatTemplate(TEMPLATE, {}).render(said, generation_prompt=False, continue_final=True)
    assert text == "<user>hi<end><assistant>so far"


def test_message_that_the_template_drops_cannot_be_continued():
    template = ChatTemplate("nothing of it", {})
    with pytest.raises(Refused, match="does not keep"):
        template.render([{"role": "assistant", "content": "x" * 9}], generation_prompt=False, continue_final=True)


@pytest.mark.parametrize("source", ["{{ raise_exception('roles must alternate') }}", "{{ messages.x.y.z }}"])
def test_template_that_refuses_is_the_clients_mistake(source):
    with pytest.raises(Refused) as refusal:
        ChatTemplate(source, {}).render([USER], generation_prompt=True, continue_final=False)
    assert refusal.value.status == 400


def test_template_runs_in_a_sandbox():
    """It comes out of a model's folder, which is somebody else's."""
    with pytest.raises(Refused):
        ChatTemplate("{{ ''.__class__.__mro__ }}", {}).render([USER], generation_prompt=True, continue_final=False)


def test_special_tokens_and_helpers_reach_the_template():
    template = ChatTemplate("{{ bos_token }}{{ messages | tojson }}{{ strftime_now('%Y') }}", {"bos_token": "<s>"})
    text = template.render([USER], generation_prompt=True, continue_final=False)
    assert text.startswith("<s>" + json.dumps([USER]))


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", -1), ("temperature", "hot"), ("temperature", True), ("top_p", 1.5), ("top_k", 2.5), ("seed", "x")],
)
def test_sampling_fields_out_of_range_are_named(field, value):
    with pytest.raises(Refused) as refusal:
        sampling.from_body({field: value})
    assert (refusal.value.status, refusal.value.param) == (400, field)


def test_sampling_left_out_is_neutral():
    assert sampling.from_body({}) == Sampling()
    assert sampling.from_body({"temperature": 0, "top_k": -1}) == Sampling(temperature=0.0)
    assert Sampling(temperature=0.0).greedy


def test_bodies_become_asks():
    tokenizer = bytes_tokenizer()
    chat = from_chat({"messages": [USER], "max_tokens": 3, "stop": "x", "seed": 5}, tokenizer)
    assert (chat.prompt_ids, chat.budget, chat.stops) == (ids("<user>hi<end><assistant>"), 3, ("x",))
    assert chat.sampling.seed == 5
    assert from_completion({"prompt": [1, 2]}, tokenizer).budget == 16


def test_characters_come_out_whole():
    """Four tokens of one character: the text comes with the last of them."""
    source = Script(*(Batch((token,)) for token in ids("a🐎b")))
    deltas = deltas_of(engine_of(source), Ask(ids("p"), 6))
    assert [delta.text for delta in deltas] == ["a", "", "", "", "🐎", "b"]
    assert [delta.finish_reason for delta in deltas] == [None] * 5 + ["length"]


def test_models_own_end_is_a_token_without_text():
    source = Script(Batch(ids("ab")), Batch((*ids("c"), 7), ended=True))
    *_, last = deltas = deltas_of(engine_of(source), Ask(ids("p"), 30))
    assert "".join(delta.text for delta in deltas) == "abc"
    assert (last.token_ids, last.finish_reason) == ((7,), "stop")


@pytest.mark.parametrize(("include", "text"), [(True, "one END"), (False, "one ")])
def test_stop_string_ends_it_and_frees_the_source(include, text):
    source = Script(Batch(ids("one END two")))
    deltas = deltas_of(engine_of(source), Ask(ids("p"), 30, stops=("END",), include_stop=include))
    assert "".join(delta.text for delta in deltas) == text
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == ("stop", "END")
    assert source.cancelled == source.orders != []


def test_failure_of_the_source_is_a_server_error():
    source = Script(Batch(ids("a")), Batch(failure="out of memory"))
    with pytest.raises(Refused) as failure:
        deltas_of(engine_of(source), Ask(ids("p"), 30))
    assert failure.value.status == 500
    assert source.cancelled == source.orders


@pytest.mark.parametrize(
    ("prompt", "budget", "why"), [((), 1, "no token"), ((1,) * 60, 5, "context length"), ((256,), 1, "vocabulary")]
)
def test_what_cannot_run_is_refused_before_it_waits(prompt, budget, why):
    with pytest.raises(Refused, match=why):
        engine_of(Script()).plan(Ask(prompt, budget))


def test_without_a_budget_the_context_is_one():
    assert engine_of(Script()).plan(Ask((1,) * 60, None)) == 4
