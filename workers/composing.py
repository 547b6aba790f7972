"""From what may be shown to logged events: items that begin, grow and end one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.jobs import events
from app.jobs.output import CALL, MESSAGE, REASONING, Item, Output
from model_pool.errors import EngineBroken
from workers.assembly import Piece

_OPENING = {MESSAGE: events.OPENING, REASONING: events.REASONING_OPENING}
_CLOSING = {MESSAGE: events.CLOSING, REASONING: events.REASONING_CLOSING, CALL: events.CALL_CLOSING}


class Composer:
    """Writes down one answer. The methods give the events to log, as JSON.

    Args:
        opened: an earlier attempt has announced the message.
        text: what it has shown of it.
        calls: prefix of ids for calls that the engine gives none.
        tokenizer: whose ids these are; said with the first of them.
    """

    def __init__(self, *, opened: bool = False, text: str = "", calls: str = "call", tokenizer: str = "") -> None:
        self._tokenizer = tokenizer
        self._items = [_Open(Item(MESSAGE), text)] if opened else []
        self._open = opened
        self._prefix = calls
        self._call = -1  # the engine's number of the call that was begun last

    @property
    def output(self) -> Output:
        return Output(tuple(each.item() for each in self._items))

    def text(self, piece: Piece) -> list[str]:
        """Visible text, with its ids and log-probabilities."""
        before = self._switch(MESSAGE)
        self._items[-1].add(piece)
        return [*before, events.delta(piece.text, piece.token_ids, piece.logprobs, self._unsaid(piece))]

    def _unsaid(self, piece: Piece) -> str:
        said = self._tokenizer if piece.token_ids else ""
        self._tokenizer = "" if said else self._tokenizer
        return said

    def reasoning(self, piece: Piece) -> list[str]:
        """Text of the reasoning."""
        before = self._switch(REASONING)
        self._items[-1].add(Piece(piece.text))
        return [*before, events.reasoning(piece.text)]

    def call(self, delta: Mapping[str, Any]) -> list[str]:
        """A streamed piece of a call (OpenAI's form: id and name come first, arguments in fragments).

        Raises:
            EngineBroken: the piece belongs to a call that is over.
        """
        number, function = int(delta.get("index", 0)), delta.get("function") or {}
        logged = self._begin_call(number, delta.get("id"), function.get("name")) if self._is_new(number) else []
        fragment = function.get("arguments")
        if fragment:
            self._items[-1].add(Piece(fragment))
            logged.append(events.arguments(fragment))
        return logged

    def close(self) -> list[str]:
        """The end of the answer; one that has no item gets an empty message."""
        begun = [] if self._items else self._switch(MESSAGE)
        return [*begun, *self._close()]

    def _is_new(self, number: int) -> bool:
        if number < self._call:
            raise EngineBroken("the engine's stream goes back to a call of a tool that was over")
        return number != self._call or not self._open or self._items[-1].kind != CALL

    def _begin_call(self, number: int, call_id: str | None, name: str | None) -> list[str]:
        before = self._close()
        self._call = number
        call_id = call_id or f"{self._prefix}_{number}"
        self._begin(Item(CALL, call_id=call_id, name=name or ""))
        return [*before, events.call(call_id, name or "")]

    def _switch(self, kind: str) -> list[str]:
        if self._open and self._items[-1].kind == kind:
            return []
        before = self._close()
        self._begin(Item(kind))
        return [*before, *_OPENING[kind]]

    def _begin(self, item: Item) -> None:
        self._items.append(_Open(item))
        self._open = True

    def _close(self) -> list[str]:
        if not self._open:
            return []
        self._open = False
        return list(_CLOSING[self._items[-1].kind])


class _Open:
    """An item whose text still grows."""

    def __init__(self, begun: Item, text: str = "") -> None:
        self.kind = begun.kind
        self._begun = begun
        self._parts = [text] if text else []
        self._logprobs: list[dict[str, Any]] = []

    def add(self, piece: Piece) -> None:
        self._parts.append(piece.text)
        self._logprobs += [dict(entry) for entry in piece.logprobs]

    def item(self) -> Item:
        begun, text = self._begun, "".join(self._parts)
        return Item(begun.kind, text, begun.call_id, begun.name, tuple(self._logprobs) or None)
