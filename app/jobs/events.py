"""The neutral events of a generation's log, one per wire event.

The log is a Redis Stream; entry `<sequence + 1>-0` holds one JSON object:

    {"k": "created"}                              0
    {"k": "queued"}                               1
    {"k": "in_progress"}                          2, once, however often the generation is taken back
    {"k": "item"}                                 an output message begins
    {"k": "part"}                                 its text part begins
    {"k": "delta", "x": TEXT, "i": [IDS]}         text, and the token ids it came from (where known); where they were
                                                  asked for, its log-probabilities as "l", all finite or null; the
                                                  first one of each attempt says as "t" whose ids they are
    {"k": "text_done"} {"k": "part_done"} {"k": "item_done"}
    {"k": "r_item"}                               reasoning begins
    {"k": "r_delta", "x": TEXT}
    {"k": "r_done"} {"k": "r_item_done"}
    {"k": "call", "id": CALL_ID, "name": NAME}    a call of a tool begins
    {"k": "args", "x": TEXT}                      a piece of its arguments
    {"k": "args_done"} {"k": "call_done"}
    {"k": "end", "status": STATUS, "finish": REASON?, "code": CODE?, "message": MESSAGE?}

Items follow one another: one is done before the next begins, and its place in the output is its number.

The API renders them with each job's own ids, as Responses events or chat chunks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

# json.dumps with options of its own makes such an encoder at every call.
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

OPENING = ('{"k":"item"}', '{"k":"part"}')
CLOSING = ('{"k":"text_done"}', '{"k":"part_done"}', '{"k":"item_done"}')
REASONING_OPENING = ('{"k":"r_item"}',)
REASONING_CLOSING = ('{"k":"r_done"}', '{"k":"r_item_done"}')
CALL_CLOSING = ('{"k":"args_done"}', '{"k":"call_done"}')
FIRST_OUTPUT = 3  # the sequence number of the first event that a worker writes


@dataclass(frozen=True)
class Event:
    """One logged event with its sequence number."""

    sequence: int
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body["k"])

    @property
    def ends(self) -> bool:
        return self.kind == "end"


def delta(
    text: str, token_ids: Sequence[int] = (), logprobs: Sequence[Mapping[str, Any]] = (), tokenizer: str = ""
) -> str:
    """The JSON of a text delta; assembled by hand, as there is one for every token.

    `tokenizer`: whose ids these and the following ones are (see `model_pool.revision.tokenizer_of`), plain letters.
    """
    ids = f',"i":[{",".join(map(str, token_ids))}]' if token_ids else ""
    more = f',"l":{_dumps(list(logprobs))}' if logprobs else ""
    whose = f',"t":"{tokenizer}"' if tokenizer else ""
    return f'{{"k":"delta","x":{encode_basestring(text)}{ids}{more}{whose}}}'


def reasoning(text: str) -> str:
    """The JSON of a reasoning delta."""
    return _dumps({"k": "r_delta", "x": text})


def call(call_id: str, name: str) -> str:
    """The JSON of a call's beginning."""
    return _dumps({"k": "call", "id": call_id, "name": name})


def arguments(text: str) -> str:
    """The JSON of a piece of a call's arguments."""
    return _dumps({"k": "args", "x": text})


def end(status: str, *, finish: str | None = None, code: str | None = None, message: str | None = None) -> str:
    """The JSON of the terminal event."""
    body = {"k": "end", "status": status, "finish": finish, "code": code, "message": message}
    return _dumps({k: v for k, v in body.items() if v is not None})


def whole_answer(text: str, finish: str) -> list[str]:
    """The log of an answer that was there from the start: as if generated at once, with one delta."""
    opening = ['{"k":"created"}', '{"k":"queued"}', '{"k":"in_progress"}', *OPENING]
    return [*opening, delta(text), *CLOSING, end("completed", finish=finish)]


def from_stream(entries: Iterable[tuple[str, dict[str, str]]]) -> list[Event]:
    """Events from the reply of XRANGE."""
    return [Event(int(entry_id.split("-", 1)[0]) - 1, json.loads(fields["e"])) for entry_id, fields in entries]


def text_of(events: Iterable[Event]) -> str:
    """The text that a run of events adds up to."""
    return "".join(e.body["x"] for e in events if e.kind == "delta")


def tokenizers_of(events: Iterable[Event]) -> set[str]:
    """Whose ids a run of deltas holds; "" stands for those that do not say it."""
    found, last = set(), ""
    for event in events:
        last = str(event.body.get("t", last))
        found.add(last)
    return found


def token_ids_of(events: Iterable[Event]) -> tuple[int, ...]:
    """The token ids that a run of events adds up to."""
    return tuple(i for e in events if e.kind == "delta" for i in e.body.get("i", ()))
