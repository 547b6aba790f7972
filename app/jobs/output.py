"""An answer's items in the order in which they came: reasoning, messages, calls of tools. Pure records.

Most answers are one message, and their results hold nothing but its text; `items` stands in a result only where there
is more to say (see `generation.Result`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.jobs.events import Event

MESSAGE, REASONING, CALL = "message", "reasoning", "call"
_BEGINS = {"item": MESSAGE, "r_item": REASONING, "call": CALL}
_ENDS = frozenset({"item_done", "r_item_done", "call_done"})
_TEXTS = frozenset({"delta", "r_delta", "args"})


@dataclass(frozen=True)
class Item:
    """One item.

    Attributes:
        kind: MESSAGE, REASONING or CALL.
        text: what is said, or a call's arguments as JSON text.
        call_id, name: of a call.
        logprobs: a message's entries in chat's form; None where nobody asked.
        done: whether its end was logged.
    """

    kind: str
    text: str = ""
    call_id: str = ""
    name: str = ""
    logprobs: tuple[dict[str, Any], ...] | None = None
    done: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The stored form; what is empty is left out."""
        body: dict[str, Any] = {"t": self.kind, "x": self.text}
        if self.kind == CALL:
            body |= {"id": self.call_id, "name": self.name}
        return body if self.logprobs is None else {**body, "l": list(self.logprobs)}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Item:
        logprobs = tuple(body["l"]) if "l" in body else None
        return cls(body["t"], body["x"], body.get("id", ""), body.get("name", ""), logprobs)


@dataclass(frozen=True)
class Output:
    """All items of an answer, or of as much of it as there is."""

    items: tuple[Item, ...] = ()

    @property
    def text(self) -> str:
        """What the messages say."""
        return "".join(item.text for item in self.items if item.kind == MESSAGE)

    @property
    def reasoning(self) -> str:
        return "".join(item.text for item in self.items if item.kind == REASONING)

    @property
    def calls(self) -> list[Item]:
        return [item for item in self.items if item.kind == CALL]

    @property
    def logprobs(self) -> list[dict[str, Any]] | None:
        """Entries of all messages; None where there are none."""
        found = [item.logprobs for item in self.items if item.logprobs is not None]
        return [entry for entries in found for entry in entries] if found else None


NOTHING = Output()


def chat_call(item: Item) -> dict[str, Any]:
    """A call in chat's form."""
    return {"id": item.call_id, "type": "function", "function": {"name": item.name, "arguments": item.text}}


def as_message(output: Output) -> dict[str, Any]:
    """The answer as an engine takes it back, as the assistant's message; reasoning is not repeated to models."""
    message: dict[str, Any] = {"role": "assistant", "content": output.text}
    calls = [chat_call(call) for call in output.calls]
    return {**message, "tool_calls": calls} if calls else message


def from_result(result: Mapping[str, Any]) -> Output:
    """The output of a generation that ended with a result."""
    if result.get("items"):
        return Output(tuple(Item.from_dict(body) for body in result["items"]))
    return Output((Item(MESSAGE, str(result["text"])),))


class Gathering:
    """Adds up events to the output so far."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._parts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def add(self, event: Event) -> None:
        """Take the next event; those of the job itself say nothing of the output."""
        kind, body = event.body["k"], event.body
        if kind in _TEXTS:
            self._parts.append(body["x"])
            self._logprobs += body.get("l", ())
        elif kind in _BEGINS:
            self._settle()
            self._items.append(Item(_BEGINS[kind], "", body.get("id", ""), body.get("name", ""), done=False))
        elif kind in _ENDS:
            self._settle()
            self._items[-1] = replace(self._items[-1], done=True)

    @property
    def current(self) -> Item:
        """The item that is open, or was last. There must be one."""
        self._settle()
        return self._items[-1]

    @property
    def place(self) -> int:
        """Its place in the output."""
        return len(self._items) - 1

    @property
    def output(self) -> Output:
        self._settle()
        return Output(tuple(self._items))

    def _settle(self) -> None:
        if not self._parts or not self._items:
            return
        item, logprobs = self._items[-1], tuple(self._logprobs)
        if logprobs:
            item = replace(item, logprobs=(*(item.logprobs or ()), *logprobs))
        self._items[-1] = replace(item, text=item.text + "".join(self._parts))
        self._parts, self._logprobs = [], []


def from_events(events: Iterable[Event]) -> Output:
    """The output that a run of events adds up to."""
    gathering = Gathering()
    for event in events:
        gathering.add(event)
    return gathering.output
