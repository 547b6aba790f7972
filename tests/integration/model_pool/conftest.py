"""Paced servers as real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.paced import PacedProcess


@pytest.fixture
def start_paced(tmp_path: Path) -> Iterator[Callable[..., PacedProcess]]:
    """Start servers that share one table of words; all are ended after the test."""
    started: list[PacedProcess] = []

    def start(*options: str) -> PacedProcess:
        name = f"s{len(started)}"
        started.append(PacedProcess(tmp_path, *options, data=tmp_path / "data", name=name))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def paced(start_paced: Callable[..., PacedProcess]) -> PacedProcess:
    """A server at zero cost."""
    return start_paced()


@pytest.fixture(scope="module")
def shared_paced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacedProcess]:
    """One server at zero cost for all tests that neither break it nor count."""
    server = PacedProcess(tmp_path_factory.mktemp("paced"))
    yield server
    server.close()
