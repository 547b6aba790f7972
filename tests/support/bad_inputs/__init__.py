"""What clients send by mistake or on purpose, and the refusal that each must get: a table for `tests/e2e`."""

from __future__ import annotations

from tests.support.bad_inputs.bodies import raw
from tests.support.bad_inputs.callers import headers, tokens
from tests.support.bad_inputs.chats import chats
from tests.support.bad_inputs.fields import common
from tests.support.bad_inputs.reads import reads
from tests.support.bad_inputs.request import Bad
from tests.support.bad_inputs.responses import responses

__all__ = ["BAD", "Bad"]

BAD: list[Bad] = [*common(), *chats(), *responses(), *raw(), *headers(), *reads(), *tokens()]
