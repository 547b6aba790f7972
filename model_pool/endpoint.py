"""Where an instance's server is asked, and in which words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from model_pool.bodies import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a server that speaks the OpenAI protocol.

    Attributes:
        model: the name under which that server serves the model.
        uds: path of its Unix socket, or None to go to `base_url`.
        base_url: scheme, host and port, and a path before `/v1` if there is one.
        headers: sent along with every request; may hold a key, so they are not shown.
        dialect: which additions to the protocol the server understands.
    """

    model: str
    uds: Path | None = None
    base_url: str = "http://engine"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    dialect: Dialect = field(default_factory=Dialect)
