"""From settings to the roles of one machine and their commands. Pure: starts nothing, reads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.up.roles import PROGRAM, Role, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.settings import Settings

# A process needs some seconds beyond its own drain to say goodbye before it is killed.
_GOODBYE = 15.0
_FLOWER_GRACE = 5.0


def roles(settings: Settings) -> tuple[Role, ...]:
    """Every role but Redis, in the order of starting: API, one GPU worker per instance, webhooks, Flower."""
    return (_api(settings), *_gpu_workers(settings), _webhooks(settings), _flower())


def worker(settings: Settings, model: str, slot: int) -> Role:
    """The GPU worker of one slot."""
    grace = settings.jobs.drain_grace_seconds + _GOODBYE
    return Role(f"gpu.{model}.{slot}", worker_command(model, slot), Stage.GPU, grace)


def api_command() -> tuple[str, ...]:
    return (PROGRAM, "api")


def worker_command(model: str, slot: int) -> tuple[str, ...]:
    return (PROGRAM, "worker", model, "--slot", str(slot))


def webhooks_command() -> tuple[str, ...]:
    return (PROGRAM, "webhooks")


def flower_command() -> tuple[str, ...]:
    return (PROGRAM, "flower")


def _api(settings: Settings) -> Role:
    return Role("api", api_command(), Stage.API, settings.api.graceful_seconds + _GOODBYE)


def _gpu_workers(settings: Settings) -> Iterator[Role]:
    for model, config in settings.models.items():
        for slot in range(config.instances):
            yield worker(settings, model, slot)


def _webhooks(settings: Settings) -> Role:
    return Role("webhooks", webhooks_command(), Stage.WEBHOOKS, settings.jobs.drain_grace_seconds + _GOODBYE)


def _flower() -> Role:
    return Role("flower", flower_command(), Stage.FLOWER, _FLOWER_GRACE, vital=False)
