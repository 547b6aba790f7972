"""`posthouse breakers list | reset`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.commands import configured

if TYPE_CHECKING:
    from app.services.pool import Pool


@click.group(invoke_without_command=True)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
@click.pass_context
def breakers(context: click.Context, data: Path | None) -> None:
    """Show and reset the circuit breakers that keep sick instances out."""
    context.obj = data
    if context.invoked_subcommand is None:
        context.invoke(list_breakers)


@breakers.command(name="list")
@click.pass_obj
def list_breakers(data: Path | None) -> None:
    """Show the breaker of every instance."""
    for breaker in _pool(data).breakers():
        click.echo(_line(breaker))


def _line(breaker: dict[str, Any]) -> str:
    told = f"{breaker['faults']} faults in {breaker['runs']} runs"
    if breaker["retry_in"] is not None:
        told = f"half open in {breaker['retry_in']} s"
    elif breaker["state"] == "half_open":
        told = f"{breaker['probes']} probes under way"
    return f"{breaker['name']:<30} {breaker['state']:<10} {told}"


@breakers.command()
@click.pass_obj
@click.argument("name")
def reset(data: Path | None, name: str) -> None:
    """Close the breaker NAME and forget what it has counted."""
    pool = _pool(data)
    if name not in {breaker["name"] for breaker in pool.breakers()}:
        raise click.ClickException(f"there is no breaker {name}; `posthouse breakers` shows them")
    pool.reset_breaker(name)
    click.echo(f"{name} is closed")


def _pool(data: Path | None) -> Pool:
    from app import bootstrap  # noqa: PLC0415 -- `--help` should not wait for it

    return bootstrap.pool(configured.load_from_outside(data))
