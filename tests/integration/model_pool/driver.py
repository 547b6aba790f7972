"""A worker in small: one Instance on one loop, until somebody kills it. `python -m …driver RUN_DIR [HOW…]`."""

from __future__ import annotations

import asyncio
import sys

from model_pool.instance import Instance
from tests.integration.model_pool.standin import QUICK, StandInClient, StandInEngine, standin_spec


async def main(run_dir: str, *how: str) -> None:
    instance = Instance(
        standin_spec(run_dir, *how),
        StandInEngine(),
        health=QUICK,
        client_factory=StandInClient,
        on_state=lambda state: print(state, flush=True),  # noqa: T201 -- the test reads it
    )
    await instance.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
