"""How an answer of the paced server can end, other than by its end or by a refusal."""

from __future__ import annotations


class BrokenOff(Exception):
    """The connection is to be closed in the middle of the answer, as a directive demands."""
