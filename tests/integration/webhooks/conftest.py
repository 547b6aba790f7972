"""Receivers that are closed again, and an office on a database of the test's own."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import pytest

from tests.support.courier import Office, office
from tests.support.receiver import ALWAYS_OK, Behaviour, Listener, Receiver


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    started: list[Receiver] = []

    def start(behaviour: Behaviour = ALWAYS_OK, tls: ssl.SSLContext | None = None) -> Receiver:
        started.append(Receiver(behaviour, tls))
        return started[-1]

    yield start
    for receiver in started:
        receiver.close()


@pytest.fixture
def internal() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def post(redis_url: str) -> Office:
    return office(redis_url)
