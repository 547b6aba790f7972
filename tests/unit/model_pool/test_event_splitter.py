"""Events out of bytes, wherever the network cuts them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_pool.sse import EventSplitter, EventTooLargeError

STREAM = b'data: {"a":1}\n\n: comment\n\nevent: x\nid: 7\ndata:two\ndata: lines\n\nretry: 5\n\ndata: [DONE]\n\n'
EVENTS = [b'{"a":1}', b"two\nlines", b"[DONE]"]


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(st.integers(min_value=0), max_size=20), st.booleans())
def test_any_cut_gives_the_same_events(places, crlf):
    raw = STREAM.replace(b"\n", b"\r\n") if crlf else STREAM
    splitter = EventSplitter()
    assert [event for piece in cut(raw, places) for event in splitter.feed(piece)] == EVENTS


def test_byte_by_byte():
    splitter = EventSplitter()
    assert [event for byte in STREAM for event in splitter.feed(bytes([byte]))] == EVENTS


def test_unfinished_event_waits():
    splitter = EventSplitter()
    assert splitter.feed(b"data: half") == []
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"\n") == [b"half"]


def test_only_one_space_after_the_colon_is_taken():
    assert EventSplitter().feed(b"data:  x\n\ndata:\n\n") == [b" x", b""]


@pytest.mark.parametrize("piece", [b"x" * 40, b"data: " + b"x" * 15 + b"\n"])
def test_event_without_end_is_given_up(piece):
    splitter = EventSplitter(limit=64)
    splitter.feed(piece)
    with pytest.raises(EventTooLargeError):
        [splitter.feed(piece) for _ in range(5)]


def test_limit_is_for_one_event_and_not_for_the_stream():
    splitter = EventSplitter(limit=16)
    assert len(splitter.feed(b"data: 0123456789\n\n" * 100)) == 100
