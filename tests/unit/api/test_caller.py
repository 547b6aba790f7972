"""Whether the caller is there, by the socket; and when a leaving process ends its streams."""

from __future__ import annotations

import socket

import pytest

from app.api.caller import Caller, CallerGone
from app.api.closing import Closing


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_closed_connection_is_noticed_at_the_next_look(pair: tuple[socket.socket, socket.socket]) -> None:
    clock = Clock()
    caller = Caller({"gunicorn.socket": pair[0]}, clock)
    clock.now = 1.0
    caller.check()
    pair[1].close()
    caller.check()  # too soon for another look
    clock.now = 2.0
    with pytest.raises(CallerGone):
        caller.check()


def test_a_next_request_in_the_pipe_is_no_hang_up_and_stays_unread(pair: tuple[socket.socket, socket.socket]) -> None:
    clock = Clock()
    caller = Caller({"gunicorn.socket": pair[0]}, clock)
    pair[1].sendall(b"GET")
    clock.now = 1.0
    caller.check()
    assert pair[0].recv(10) == b"GET"
    assert pair[0].gettimeout() is None


def test_without_a_socket_the_caller_is_there() -> None:
    clock = Clock()
    caller = Caller({}, clock)
    clock.now = 9.0
    caller.check()


def test_streams_have_until_shortly_before_the_grace_ends() -> None:
    clock = Clock()
    closing = Closing(30, clock)
    assert (closing.begun, closing.time_is_up) == (False, False)
    closing.begin()
    clock.now = 10.0
    closing.begin()  # a second signal changes nothing
    assert (closing.begun, closing.time_is_up) == (True, False)
    clock.now = 28.5
    assert closing.time_is_up
