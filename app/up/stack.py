"""`posthouse up`: brings the stack up on the prepared ground, says when a request would succeed, stays until asked."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from app.redis import cache_server, jobs_server
from app.settings import ConfigurationError
from app.up import plan, ready, redis_info, session
from app.up.console import Console
from app.up.ground import Ground, prepare
from app.up.lock import FolderInUseError
from app.up.preflight import PreflightError
from app.up.redis_server import RedisMissingError
from app.up.roles import Role, Stage
from app.up.supervisor import RoleFailedError, Supervisor
from model_pool.quantize.errors import QuantizeError

if TYPE_CHECKING:
    from app.up.wishes import Wishes

# Failures that an operator mends by reading one sentence.
EXPECTED = (
    ConfigurationError,
    FolderInUseError,
    PreflightError,
    QuantizeError,
    RedisMissingError,
    RoleFailedError,
)
_REDIS_POLL_SECONDS = 0.05
_MOST_DEATHS = 5


def run(wished: Wishes) -> int:
    """Run the stack until a signal; returns the exit status.

    Raises:
        Exception: one of EXPECTED, when the ground cannot be prepared.
    """
    return asyncio.run(_Stack(prepare(wished), Console(sys.stdout)).run())


class _Stack:
    def __init__(self, ground: Ground, console: Console) -> None:
        self._ground = ground
        self._console = console
        self._roles = plan.roles(ground.settings)
        self._supervisor = Supervisor(console, ground.environment, keep_open=(ground.lock,))

    async def run(self) -> int:
        self._console.expect(role.name for role in (*self._ground.redis, *self._roles))
        return await session.run(self._supervisor, self._console, self._bring_up, EXPECTED)

    async def _bring_up(self) -> None:
        await self._make_demo_model()
        await self._start_redis()
        self._supervisor.start(self._roles)
        api = self._ground.settings.api
        await ready.until_ready(api.host, api.port, say=self._console.say, check=self._check)
        self._announce()

    async def _make_demo_model(self) -> None:
        folder = self._ground.demo_folder
        if folder is None or folder.exists():  # it appears whole or not at all
            return
        self._console.say("making the 4-bit demo model, once; it is kept for later starts")
        command = (sys.executable, "-m", "model_pool.quantize.demo", str(folder))
        status = await self._supervisor.run_to_end(Role("quantize", command, Stage.GPU, grace=5.0))
        if status != 0:
            raise RoleFailedError("the demo model could not be made; the lines above say why")

    async def _start_redis(self) -> None:
        if self._ground.binary:
            self._console.say(str(self._ground.binary))
        self._supervisor.start(self._ground.redis)
        told = self._ground.settings.redis
        for server in (jobs_server(told), cache_server(told)):
            while not await asyncio.to_thread(redis_info.answers, server):
                self._check()
                await asyncio.sleep(_REDIS_POLL_SECONDS)
        for warning in await asyncio.to_thread(redis_info.check, self._ground.settings):
            self._console.say(f"warning: {warning}")

    def _check(self) -> None:
        self._supervisor.check(_MOST_DEATHS)

    def _announce(self) -> None:
        settings = self._ground.settings
        base = f"http://{_reachable(settings.api.host)}:{settings.api.port}"
        flower = f"http://{_reachable(settings.flower.host)}:{settings.flower.port}"
        self._console.plain(f"ready {base}")
        self._console.say(f"models    {', '.join(settings.models)}")
        self._console.say(f"API       {base}/v1   key {settings.api.dev_key.get_secret_value()}")
        self._console.say(
            f"Flower    {flower}   user {settings.flower.user}, password {settings.flower.password.get_secret_value()}"
        )
        self._console.say("Ctrl-C drains and stops everything")


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
