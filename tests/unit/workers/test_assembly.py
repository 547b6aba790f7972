"""Held-back text: what may be shown, and when."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from workers.assembly import Assembler, Piece


def shown(assembler: Assembler, chunks: list[tuple[str, tuple[int, ...]]]) -> tuple[str, tuple[int, ...]]:
    pieces = [assembler.feed(text, ids) for text, ids in chunks] + [assembler.finish()]
    real = [p for p in pieces if p]
    return "".join(p.text for p in real), tuple(i for p in real for i in p.token_ids)


def test_text_without_stop_strings_is_shown_at_once() -> None:
    assert Assembler().feed("hello", [1]) == Piece("hello", (1,))


def test_no_part_of_a_stop_string_leaks_however_it_is_split() -> None:
    assembler = Assembler(["STOPPED"])
    chunks = [("ab", (1,)), ("cS", (2,)), ("TO", (3,)), ("PP", (4,)), ("EDxyz", (5,))]
    assert shown(assembler, chunks)[0] == "abc"
    assert assembler.stopped


def test_a_near_miss_is_shown_in_full() -> None:
    assembler = Assembler(["STOPPED"])
    assert shown(assembler, [("aSTOP", (1,)), ("PING", (2,))]) == ("aSTOPPING", (1, 2))
    assert not assembler.stopped


def test_of_several_stop_strings_the_one_that_is_complete_first_wins() -> None:
    assert shown(Assembler(["zz", "b"]), [("abzz", (1,))])[0] == "a"
    assert shown(Assembler(["b", "abc"]), [("xabc", (1,))])[0] == "xa"
    assert shown(Assembler(["c", "bc"]), [("abc", (1,))])[0] == "a"


def test_text_held_back_at_the_end_is_flushed() -> None:
    assembler = Assembler(["END"])
    assert assembler.feed("xEN", [1]) is None
    assert assembler.finish() == Piece("xEN", (1,))


def test_ids_of_half_a_character_wait_for_the_rest_of_it() -> None:
    assembler = Assembler()
    assert assembler.feed("a", [1]) == Piece("a", (1,))
    assert assembler.feed("", [2]) is None
    assert assembler.feed("é", [3]) == Piece("é", (2, 3))


def test_ids_without_text_at_the_end_are_dropped() -> None:
    assembler = Assembler()
    assembler.feed("", [9])
    assert assembler.finish() is None


@settings(deadline=None)  # a pause of a busy machine is no fault of the code
@given(
    st.text(alphabet="abc", max_size=40),
    st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=4),
    st.data(),
)
def test_any_split_shows_what_one_chunk_would(text: str, stop: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    complete = [(at + len(s), at) for s in stop if (at := text.find(s)) >= 0]
    expected = text[: min(complete)[1]] if complete else text
    assert shown(Assembler(stop), [(p, (n,)) for n, p in enumerate(parts)])[0] == expected
