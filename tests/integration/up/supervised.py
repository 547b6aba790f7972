"""A supervisor as a program of its own, for tests that signal and kill it.

`python supervised.py '{"roles": [[name, argv, stage, grace], …]}'` prints `ready` once all roles run.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from app.up import session
from app.up.console import Console
from app.up.roles import Role, Stage
from app.up.supervisor import Supervisor


async def main(told: dict) -> int:
    console = Console(sys.stdout)
    roles = [Role(name, tuple(argv), Stage(stage), grace) for name, argv, stage, grace in told["roles"]]
    console.expect(role.name for role in roles)
    supervisor = Supervisor(console, os.environ)

    async def bring_up() -> None:
        supervisor.start(roles)
        while None in supervisor.pids().values():
            await asyncio.sleep(0.01)
        console.plain("ready " + json.dumps(supervisor.pids()))

    return await session.run(supervisor, console, bring_up, ())


if __name__ == "__main__":
    sys.exit(asyncio.run(main(json.loads(sys.argv[1]))))
