"""The texts that quantisation needs, written for it and kept apart: calibration and held-out.

The calibration mix is that of the product's callers (customer service, game characters, general facts, small pieces
of writing, arithmetic and code), so that every layer sees the activations that it will see in service.
"""

from __future__ import annotations

import json
from importlib.resources import files

# Turns alternate user, assistant, user, …
Chat = tuple[str, ...]


def calibration_chats() -> tuple[Chat, ...]:
    """The conversations that a model is calibrated on, one JSON array of turns a line in the file."""
    return tuple(tuple(json.loads(line)) for line in _lines("calibration_chats.jsonl"))


def held_out_texts() -> tuple[str, ...]:
    """The texts that perplexity is measured on; none of them is among the calibration texts."""
    return tuple(json.loads(line) for line in _lines("held_out.jsonl"))


def _lines(name: str) -> list[str]:
    return (files(__name__) / name).read_text(encoding="utf-8").splitlines()
