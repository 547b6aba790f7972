"""What a submit and a claim cost, however many instances stand ready and however many jobs wait.

Both are one Lua step. They are called as the API and a worker call them, against one Redis process with a line in each
of three databases: an empty one, and two with a crowd of many tenants and tiers. Each submit is followed by a claim, so
a line keeps its length, and what was claimed is committed, untimed. A round gives every cell short turns, in an order
by chance, so that what the machine does meanwhile meets all alike; a ratio is one of medians within a round.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from app.up import redis_server
from benchmarks.support import crowd
from benchmarks.support.figures import Figure, Outcome, over_rounds
from benchmarks.support.progress import Progress
from benchmarks.support.steps import STEPS, Line, Took
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

WAITING = (0, 10_000, 100_000)
INSTANCES = (1, 10, 100)
ROUNDS = 5
TURNS = 10  # of each cell in a round
CALLS = 10  # of each step in a turn, and as many again inside Redis
AT_MOST = 2.0

Cell = tuple[int, int]  # instances, waiting
EASIEST: Cell = (1, 0)


def measure(
    progress: Progress, *, rounds: int = ROUNDS, calls: int = CALLS, waiting: Sequence[int] = WAITING
) -> Outcome:
    """Fill the lines, then call both steps in every cell, round by round."""
    packing = [word for name, value in redis_server.PACKING.items() for word in (f"--{name}", str(value))]
    server = RedisProcess(args=("--slowlog-max-len", str(10 * calls), *packing))
    try:
        with ExitStack() as folders, asyncio.Runner() as runner:
            lines = {count: _line(folders, server, db) for db, count in enumerate(waiting)}
            memory = 0.0
            for count, line in lines.items():
                progress(f"{count:,} jobs get in line")
                before = _used(server)
                line.fill(count)
                memory = (_used(server) - before) / max(1, count)
            cells = list(itertools.product(INSTANCES, waiting))
            client, inside = runner.run(_rounds(progress, lines, cells, rounds, calls))
    finally:
        server.close()
    conditions = {"calls": calls * TURNS * rounds, "tenants": crowd.TENANTS, "tiers": crowd.TIERS, "appendonly": True}
    return Outcome(
        "Submit and claim, whatever the load", tuple(_figures(client, inside, memory, max(waiting))), conditions
    )


def _line(folders: ExitStack, server: RedisProcess, db: int) -> Line:
    return Line(folders.enter_context(crowd.settings(server.url(db))))


def _used(server: RedisProcess) -> int:
    """Bytes that Redis has in use, while it writes nothing else."""
    client = server.client()
    wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], what="no rewrite runs", limit=120)
    return int(client.info("memory")["used_memory"])


Rounds = list[Mapping[Cell, Took]]


async def _rounds(
    progress: Progress, lines: Mapping[int, Line], cells: Sequence[Cell], rounds: int, calls: int
) -> tuple[Rounds, Rounds]:
    for line in lines.values():  # what runs take is measured first, as it would be on any day
        await line.register(1, max(INSTANCES))
        await line.at_client(5 * calls, 1)
    client: Rounds = []
    inside: Rounds = []
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        client.append({cell: Took() for cell in cells})
        inside.append({cell: Took() for cell in cells})
        for _ in range(TURNS):
            await _turn(lines, calls, client[-1], inside[-1])
    return client, inside


async def _turn(
    lines: Mapping[int, Line], calls: int, client: Mapping[Cell, Took], inside: Mapping[Cell, Took]
) -> None:
    """Each cell once."""
    for instances in random.sample(INSTANCES, len(INSTANCES)):
        for line in lines.values():
            await line.register(instances, max(INSTANCES))
        for waiting in random.sample(sorted(lines), len(lines)):
            client[instances, waiting].add(await lines[waiting].at_client(calls, instances))
            inside[instances, waiting].add(await lines[waiting].in_redis(calls, instances))


def ratios(rounds: Rounds, step: str, cell: Cell) -> list[float]:
    """Of each round, a step's median in a cell ÷ its median in the easiest cell."""
    return [a / b for a, b in zip(medians(rounds, step, cell), medians(rounds, step, EASIEST), strict=True)]


def medians(rounds: Rounds, step: str, cell: Cell) -> list[float]:
    """Microseconds of a step in a cell, the median of each round."""
    return [statistics.median(getattr(found[cell], step)) for found in rounds]


def _figures(client: Rounds, inside: Rounds, memory: float, most: int) -> list[Figure]:
    cells = sorted(client[0], key=lambda cell: (cell[1], cell[0]))
    figures = []
    for step in STEPS:
        figures.append(over_rounds(f"{step}, {_named(EASIEST)}", medians(client, step, EASIEST), unit="µs"))
        figures += [
            over_rounds(f"{step}, {_named(cell)} ÷ that", ratios(client, step, cell), at_most=AT_MOST)
            for cell in cells
            if cell != EASIEST
        ]
    for step in STEPS:
        figures.append(over_rounds(f"{step} in Redis, {_named(EASIEST)}", medians(inside, step, EASIEST), unit="µs"))
        figures += [
            over_rounds(f"{step} in Redis, {_named(cell)} ÷ that", ratios(inside, step, cell), at_most=AT_MOST)
            for cell in cells
            if cell != EASIEST
        ]
    figures.append(Figure(f"memory of a short chat that waits, among {most:,}", memory / 1024, unit="KiB"))
    return figures


def _named(cell: Cell) -> str:
    instances, waiting = cell
    return f"{instances} instance{'s' if instances > 1 else ''}, {waiting:,} waiting"
