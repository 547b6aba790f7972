"""`posthouse up`: brings the stack up on the prepared ground, says when a request would succeed, stays until asked."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from app import settings as configuration
from app.redis import cache_server, jobs_server
from app.settings import ConfigurationError
from app.up import changes, plan, ready, redis_info, running, session
from app.up.console import Console
from app.up.fleet import Fleet
from app.up.ground import Ground, prepare, read_again
from app.up.lock import FolderInUseError
from app.up.preflight import PreflightError
from app.up.redis_server import RedisMissingError
from app.up.role_files import RoleFiles
from app.up.roles import Role, Stage
from app.up.rollouts import Rollouts
from app.up.sight import RedisSight
from app.up.supervisor import RoleFailedError, Supervisor
from model_pool.engines import EngineConfigError
from model_pool.quantize.errors import QuantizeError
from model_pool.revision import revision_of
from model_pool.spec import SpecError

if TYPE_CHECKING:
    from app.settings import Settings
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
# What makes a configuration unusable while the stack runs.
UNUSABLE = (ConfigurationError, EngineConfigError, SpecError, OSError)
_REDIS_POLL_SECONDS = 0.05
_MOST_DEATHS = 5
# An instance is its worker's process first, before its engine begins to start.
_WORKER_START_SECONDS = 30.0


def run(wished: Wishes) -> int:
    """Run the stack until a signal; returns the exit status.

    Raises:
        Exception: one of EXPECTED, when the ground cannot be prepared.
    """
    return asyncio.run(_Stack(prepare(wished), Console(sys.stdout)).run())


class _Stack:
    def __init__(self, ground: Ground, console: Console) -> None:
        settings = ground.settings
        self._ground = ground
        self._console = console
        self._supervisor = Supervisor(console, ground.environment, keep_open=(ground.lock,))
        self._files = RoleFiles(settings.data_dir, settings)
        self._fleet = Fleet(settings, self._supervisor, console, self._files)
        self._rollouts = Rollouts(
            self._fleet,
            RedisSight(settings.redis),
            offer=self._files.house,
            say=console.say,
            healthy_seconds=settings.health.start_seconds + _WORKER_START_SECONDS,
            empty_seconds=settings.jobs.deadline_seconds,
        )
        self._told = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def run(self) -> int:
        planned = plan.roles(self._ground.settings)
        self._console.expect(role.name for role in (*self._ground.redis, *planned))
        return await session.run(self._supervisor, self._console, self._bring_up, EXPECTED, self._told.set)

    async def _bring_up(self) -> None:
        engine = self._ground.wished.engine or ""
        running.note(self._ground.settings.data_dir, configuration.config_place(), engine)
        await self._make_demo_model()
        await self._start_redis()
        self._supervisor.start(self._roles())
        api = self._ground.settings.api
        await ready.until_ready(api.host, api.port, say=self._console.say, check=self._check)
        self._announce()
        self._following = asyncio.create_task(self._follow(), name="reloads")
        self._following.add_done_callback(self._no_more_reloads)

    def _roles(self) -> list[Role]:
        """Every role but Redis, each with what it is told."""
        models = self._ground.settings.models
        house = self._files.house(models)
        self._rollouts.begin(models)
        weights = {name: revision_of(model.path, model.revision) for name, model in models.items()}
        workers = {
            f"gpu.{name}.{slot}": self._fleet.role(name, slot, model, weights[name])
            for name, model in models.items()
            for slot in range(model.instances)
        }
        planned = plan.roles(self._ground.settings)
        return [workers.get(role.name) or replace(role, variables=house) for role in planned]

    async def _follow(self) -> None:
        """Whenever we are told, read the configuration again."""
        while True:
            await self._told.wait()
            self._told.clear()
            try:
                asked, found = await asyncio.to_thread(read_again, self._ground)
            except UNUSABLE as error:
                for line in f"nothing is changed: {error}".splitlines():
                    self._console.say(line)
                continue
            self._change(asked, found)

    def _no_more_reloads(self, following: asyncio.Task[None]) -> None:
        if not following.cancelled():
            self._console.say(f"the configuration cannot be read again before a restart: {following.exception()!r}")

    def _change(self, asked: Settings, found: Settings) -> None:
        told = changes.of_models(self._rollouts.wanted, found.models)
        self._console.say("configuration read again: " + ("; ".join(told) or "no model is configured otherwise"))
        if other := changes.beyond_models(self._ground.asked, asked):
            self._console.say(f"left alone, as it needs a restart: {', '.join(other)}")
        self._rollouts.change(found.models)

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
