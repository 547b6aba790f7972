"""How long a stream stands still when what carries it is killed, as its client sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import redis

from tests.support.events import counting, named
from tests.support.stack import Stack
from tests.support.waiting import wait_until

_LIMIT = 60.0
_PART = 8  # what is killed is killed after this part of the answers


class Streamed:
    """An answer that is followed: the job's id, the text, and each token's number in the log and when it came."""

    def __init__(self) -> None:
        self.job = ""
        self.tokens: list[tuple[int, float]] = []  # monotonic seconds
        self.text = ""

    def read(self, stack: Stack, model: str, tokens: int) -> None:
        """Ask for so many tokens and follow them to the end."""
        body = {"model": model, "input": f"{{{{tokens={tokens}}}}}", "stream": True, "background": True}
        with stack.open("POST", "/v1/responses", body, timeout=_LIMIT) as response:
            for event in named(response):
                if event.event == "response.created":
                    self.job = event.body["response"]["id"]
                elif event.event == "response.output_text.delta":
                    self.tokens.append((event.body["sequence_number"], event.at))
                    self.text += event.body["delta"]

    def begun(self, tokens: int) -> bool:
        return len(self.tokens) >= tokens // _PART

    def flowing(self, tokens: int) -> bool:
        return len(self.tokens) < tokens // 2


def pauses(stack: Stack, model: str, kill: Callable[[], None], *, slot: int, streams: int, tokens: int) -> list[float]:
    """Seconds from a kill until each stream that the instance in `slot` carried, not yet half through, goes on.

    Raises:
        RuntimeError: an answer is not whole, or the instance carried none.
    """
    asked = [Streamed() for _ in range(streams)]
    client = stack.redis()
    with ThreadPoolExecutor(streams) as threads:
        readers = [threads.submit(each.read, stack, model, tokens) for each in asked]
        wait_until(lambda: all(each.begun(tokens) for each in asked), what="all streams flow", limit=_LIMIT)
        carried = {
            _record(client, each.job): each
            for each in asked
            if each.flowing(tokens) and client.hget(_record(client, each.job), "instance") == f"{model}.{slot}"
        }
        killed = time.monotonic()
        kill()
        taken_up = _taken_up(client, carried)
        for reader in readers:
            reader.result(_LIMIT)
    if not carried or any(each.text != counting(tokens) for each in asked):
        raise RuntimeError("the instance carried no stream" if not carried else "an answer is not whole")
    return [pause(killed, each.tokens, taken_up[record]) for record, each in carried.items()]


def _record(client: redis.Redis, job: str) -> str:
    return f"ph:gen:{client.hget(f'ph:job:{job}', 'gen')}"


def _taken_up(client: redis.Redis, records: Iterable[str]) -> dict[str, int]:
    """Of each generation the number of the first token that a second attempt can have made; waits for all of these."""
    waiting, found = set(records), {}

    def look() -> bool:
        for record in sorted(waiting):
            attempts, sequence = client.hmget(record, "attempts", "seq")
            if int(attempts) > 1:
                found[record] = int(sequence)
                waiting.discard(record)
        return not waiting

    wait_until(look, what="all are taken up again", limit=_LIMIT, every=0.005)
    return found


def pause(killed: float, tokens: Sequence[tuple[int, float]], taken_up: int) -> float:
    """From the kill to the first token of the next attempt, whatever was still on its way at the kill."""
    return min(at for number, at in tokens if number >= taken_up) - killed
