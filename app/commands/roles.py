"""`posthouse api | worker | webhooks | flower`: check what must hold, then become the server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import click

from app import settings
from app.commands import configured
from app.up import entrypoints, preflight, redis_info

if TYPE_CHECKING:
    from app.settings import Settings


@click.command()
def api() -> None:
    """The HTTP face (gunicorn)."""
    found = configured.load()
    _check_redis(found)
    _become(entrypoints.api())


@click.command()
@click.argument("model")
@click.option("--slot", type=click.IntRange(min=0), default=0, show_default=True, help="Which instance of the model.")
def worker(model: str, slot: int) -> None:
    """One GPU worker and the instance MODEL.SLOT that it owns (Celery)."""
    found = configured.load()
    try:
        command = entrypoints.gpu_worker(found, model, slot)
    except entrypoints.UnknownModelError as error:
        raise click.ClickException(str(error)) from None
    _check_redis(found)
    _become(command, {"POSTHOUSE_WORKER__MODEL": model, "POSTHOUSE_WORKER__SLOT": str(slot)})


@click.command()
def webhooks() -> None:
    """One worker that delivers webhooks (Celery)."""
    found = configured.load()
    _check_redis(found)
    _become(entrypoints.webhook_worker(found))


@click.command()
def flower() -> None:
    """The operators' window on the queue (Flower); refuses to start without flower.password."""
    found = configured.load()
    if not found.flower.password.get_secret_value():
        raise click.ClickException("flower.password is empty: set POSTHOUSE_FLOWER__PASSWORD; Flower never runs open")
    _become(entrypoints.flower())


def _check_redis(found: Settings) -> None:
    """Refuse a jobs Redis that may drop keys; one that is away is waited for by the role itself."""
    try:
        warnings = redis_info.check(found)
    except preflight.PreflightError as error:
        raise click.ClickException(str(error)) from None
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def _become(command: tuple[str, ...], additions: dict[str, str] | None = None) -> NoReturn:
    os.execve(command[0], command, settings.process_environment(additions))  # noqa: S606 -- no shell, on purpose
