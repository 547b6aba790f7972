"""The paced server's parts that need no server: vocabulary, detokenizer, stop strings."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model_pool.servers.face.errors import Refused
from model_pool.servers.face.stops import StopWatch
from model_pool.servers.paced.answer import plan
from model_pool.servers.paced.chat import Conversation
from model_pool.servers.paced.detokenizer import Detokenizer
from model_pool.servers.paced.directives import Call, split
from model_pool.servers.paced.vocabulary import FIRST_WORD, UnknownTokenError, Vocabulary

SAME_TABLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def vocabulary(tmp_path):
    return Vocabulary(tmp_path / "words.jsonl")


@SAME_TABLE
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_tokens_give_their_text_back(vocabulary, text):
    assert Detokenizer(vocabulary).text(vocabulary.encode(text)) == text


def test_long_words_and_gaps_are_cut(vocabulary):
    text = "x" * 1000 + " " * 1000
    ids = vocabulary.encode(text)
    assert Detokenizer(vocabulary).text(ids) == text
    assert max(len(vocabulary.word(token_id)) for token_id in ids) <= 128


def test_tables_in_two_memories_agree(tmp_path):
    one, two = Vocabulary(tmp_path / "w"), Vocabulary(tmp_path / "w")
    assert one.encode("a b") == [FIRST_WORD, FIRST_WORD + 1]
    assert two.encode("c b a") == [FIRST_WORD + 2, FIRST_WORD + 1, FIRST_WORD + 3]  # " a" is another word than "a"
    assert one.word(FIRST_WORD + 3) == " a"
    assert one.encode("c a") == [FIRST_WORD + 2, FIRST_WORD + 3]


def test_half_written_word_is_forgotten(tmp_path):
    path = tmp_path / "w"
    Vocabulary(path).encode("whole")
    with path.open("ab") as table:
        table.write(b'"ha')
    after = Vocabulary(path)
    assert after.encode("whole next") == [FIRST_WORD, FIRST_WORD + 1]
    assert Vocabulary(path).encode("whole next") == [FIRST_WORD, FIRST_WORD + 1]


def test_full_table_spells_in_bytes(tmp_path):
    full = Vocabulary(tmp_path / "w", max_words=1)
    ids = full.encode("a čb")
    assert ids == [FIRST_WORD, *" čb".encode()]
    assert Detokenizer(full).text(ids) == "a čb"


def test_unknown_id(vocabulary):
    with pytest.raises(UnknownTokenError):
        vocabulary.word(FIRST_WORD)


def test_characters_come_out_whole(vocabulary):
    detokenizer = Detokenizer(vocabulary)
    assert [detokenizer.step(byte) for byte in "a驿".encode()] == ["a", "", "", "驿"]
    assert detokenizer.text("驿".encode()[:2]) == ""
    assert detokenizer.text(vocabulary.encode("x")) == "\ufffdx"  # a character that nothing can complete any more


@pytest.mark.parametrize("include", [True, False])
@given(text=st.text("ab", max_size=30), stop=st.text("ab", min_size=1, max_size=4), data=st.data())
def test_stop_string_is_found_wherever_the_text_is_cut(include, text, stop, data):
    watch = StopWatch((stop,), include=include)
    sent, found, place = "", None, 0
    while place < len(text) and found is None:
        step = data.draw(st.integers(1, 5))
        found = watch.add(text[place : place + step])
        place += step
        sent += watch.take(finished=found is not None or place >= len(text))
    head, hit, _ = text.partition(stop)
    assert (found is not None) == bool(hit)
    assert sent == (head + hit if include else head)


@SAME_TABLE
@given(place=st.integers(0, 30), block=st.sampled_from(["", "{{bytes}}", "{{tokens=11}}", "{{bytes tokens=17}}"]))
def test_continued_plan_is_the_rest_of_the_whole(vocabulary, place, block):
    question = f"{block} čtyři 驿站 slova · and more"
    whole = plan(Conversation(question, ()), vocabulary).token_ids
    rest = plan(Conversation(question, whole[:place]), vocabulary).token_ids
    assert rest == whole[place:]


@SAME_TABLE
@given(place=st.integers(0, 30), block=st.sampled_from(["", "{{bytes}}", "{{tokens=11}}", "{{bytes tokens=40}}"]))
def test_plan_continued_by_text_says_the_rest_of_the_text(vocabulary, place, block):
    question = f"{block} čtyři 驿站 slova · and more"
    text = Detokenizer(vocabulary).text(plan(Conversation(question, ()), vocabulary).token_ids)
    begun = tuple(vocabulary.encode(text[:place]))
    rest = plan(Conversation(question, begun), vocabulary).token_ids
    assert Detokenizer(vocabulary).text(rest) == text[place:]


def test_blocks_may_call_tools_and_reason_first():
    echo, said = split('{{reasoning=first this, then that tool=look-up args={"a": {"b": "x y"}}}} so {{tool=other}}')
    assert (echo, said.reasoning) == ("so", "first this, then that")
    assert said.calls == (Call("look-up", '{"a": {"b": "x y"}}'), Call("other", "{}"))


@pytest.mark.parametrize("block", ["{{args={}}}", "{{tool=}}", "{{tool=a b}}", "{{logprobs=nan}}", "{{ttft=inf}}"])
def test_a_directive_that_is_half_right_is_refused(block):
    with pytest.raises(Refused):
        split(block)


def test_once_a_tool_has_answered_its_answer_is_echoed(vocabulary):
    asked = Conversation("{{reasoning=hm tool=f}} what", (), told="sunny today")
    answer = plan(asked, vocabulary)
    assert (answer.reasoning, answer.calls) == ((), ())
    assert Detokenizer(vocabulary).text(answer.token_ids) == "sunny today"
