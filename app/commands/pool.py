"""`posthouse pool list | drain | resume | restart | watch`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from app.commands import configured

if TYPE_CHECKING:
    from rich.table import Table

    from app.services.pool import Pool

_WIDTH = 120
_COLUMNS = (
    "instance",
    "state",
    "breaker",
    "running",
    "tokens/s",
    "started",
    "finished",
    "aborted",
    "revision",
    "device",
)


@click.group(invoke_without_command=True)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
@click.pass_context
def pool(context: click.Context, data: Path | None) -> None:
    """Show the pool's instances, and take one out, put it back or start it anew without losing work."""
    context.obj = data
    if context.invoked_subcommand is None:
        context.invoke(list_instances)


@pool.command(name="list")
@click.pass_obj
def list_instances(data: Path | None) -> None:
    """Show every instance once."""
    from rich.console import Console  # noqa: PLC0415 -- `--help` should not wait for it

    console = Console()
    Console(width=max(console.width, _WIDTH)).print(_table(_pool(data)))


@pool.command()
@click.option("--every", type=click.FloatRange(min=0.2), default=1.0, show_default=True, help="Seconds between looks.")
@click.pass_obj
def watch(data: Path | None, every: float) -> None:
    """Show every instance, live. Ctrl-C ends it."""
    from rich.live import Live  # noqa: PLC0415

    known = _pool(data)
    try:
        with Live(_table(known), auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(_table(known), refresh=True)
    except KeyboardInterrupt:
        return


@pool.command()
@click.argument("instance")
@click.pass_obj
def drain(data: Path | None, instance: str) -> None:
    """INSTANCE takes nothing new and finishes what it runs; it stays out until it is resumed."""
    _order(data, instance, "drain")


@pool.command()
@click.argument("instance")
@click.pass_obj
def resume(data: Path | None, instance: str) -> None:
    """INSTANCE takes work again."""
    _order(data, instance, "resume")


@pool.command()
@click.argument("instance")
@click.pass_obj
def restart(data: Path | None, instance: str) -> None:
    """INSTANCE finishes or hands back what it runs, and its engine's process starts anew."""
    _order(data, instance, "restart")


def _order(data: Path | None, instance: str, wish: Literal["drain", "resume", "restart"]) -> None:
    from app.errors import PosthouseError  # noqa: PLC0415

    try:
        _pool(data).order(instance, wish)
    except PosthouseError as error:
        raise click.ClickException(error.message) from None
    click.echo(f"{instance}: {wish} ordered; its worker hears of it within a second or two")


def _table(known: Pool) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table(*_COLUMNS)
    for state in known.states().values():
        for found in state.instances:
            counts = found["generations"]
            table.add_row(
                found["id"], found["state"], found["breaker"], f"{found['in_flight']}/{found['capacity']}",
                f"{found['tokens_per_second']:.0f}", *(str(counts[n]) for n in ("started", "finished", "aborted")),
                found["revision"], found["device"],
            )  # fmt: skip
    return table


def _pool(data: Path | None) -> Pool:
    from app import bootstrap  # noqa: PLC0415

    return bootstrap.pool(configured.load_from_outside(data))
