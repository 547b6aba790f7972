"""`posthouse cache stats | clear`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from app.commands import configured
from cache.errors import StoreUnavailable
from cache.keys import Scope

if TYPE_CHECKING:
    from cache.response_cache import ResponseCache

_AWAY = (
    "the cache Redis does not answer: is the stack running, and is redis.cache_url (or --data) the one that it uses?"
)


@click.group()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
@click.pass_context
def cache(context: click.Context, data: Path | None) -> None:
    """Show and clear the response cache."""
    context.obj = data


@cache.command()
@click.pass_obj
def stats(data: Path | None) -> None:
    """Show what it holds and how often it could answer."""
    found = _cache(data).stats()
    if not found.available:
        raise click.ClickException(_AWAY)
    ratio = "-" if found.hit_ratio is None else f"{found.hit_ratio:.1%}"
    click.echo(f"{'hit ratio':<12}{ratio}")
    click.echo(f"{'keys':<12}{found.keys}")
    click.echo(f"{'bytes':<12}{found.size}")
    for name, count in sorted(found.counts.items()):
        click.echo(f"{name:<12}{count}")


@cache.command()
@click.pass_obj
@click.option("--tenant", help="Only this tenant's answers.")
@click.option("--model", help="Only this model's answers.")
def clear(data: Path | None, tenant: str | None, model: str | None) -> None:
    """Forget kept answers: all, or those of a tenant, a model, or both. API processes follow within seconds."""
    found, removed = _cache(data), 0
    try:
        while True:
            step = found.clear(Scope(tenant, model))
            removed += step.entries
            if step.complete:
                break
    except StoreUnavailable:
        raise click.ClickException(f"{_AWAY} {removed} answers were removed") from None
    click.echo(f"{removed} answers removed")


def _cache(data: Path | None) -> ResponseCache:
    from app import bootstrap  # noqa: PLC0415 -- `--help` should not wait for it

    found = configured.load_from_outside(data)
    return bootstrap.response_cache(found, found.models, local=False)
