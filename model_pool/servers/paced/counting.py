"""How many tokens a conversation has, without a server and without learning its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from model_pool.servers.paced.vocabulary import pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FRAME = 2  # a token for the role, one for the end


def count(messages: Sequence[Mapping[str, Any]]) -> int:
    """As many as `chat.render` gives ids, with the assistant's role at the end; contents are text or None."""
    return sum(pieces(message.get("content") or "") + _FRAME for message in messages) + 1
