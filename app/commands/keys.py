"""`posthouse keys create | list | revoke`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from app.commands import configured

if TYPE_CHECKING:
    from app.services.keys import KeyStore


@click.group()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
@click.pass_context
def keys(context: click.Context, data: Path | None) -> None:
    """Create, list and revoke API keys."""
    context.obj = data


@keys.command()
@click.pass_obj
@click.option("--tenant", required=True, help="Whose key it is; tenants see nothing of each other.")
@click.option("--scope", type=click.Choice(["use", "admin"]), default="use", show_default=True)
@click.option(
    "--tier",
    type=click.Choice(["priority", "default", "flex"]),
    default="priority",
    show_default=True,
    help="The best service tier that its jobs may have.",
)
@click.option("--name", default="", help="What it is for.")
def create(
    data: Path | None,
    *,
    tenant: str,
    scope: Literal["use", "admin"],
    tier: Literal["priority", "default", "flex"],
    name: str,
) -> None:
    """Make a key and show its secret, this one time."""
    key, secret = _store(data).create(tenant, name=name, scope=scope, tier_cap=tier)
    click.echo(f"{key.id} for tenant {key.tenant}, scope {key.scope}. Its secret, shown only now:", err=True)
    click.echo(secret)


@keys.command(name="list")
@click.pass_obj
def list_keys(data: Path | None) -> None:
    """Show all keys, without their secrets."""
    for key in _store(data).list():
        made = datetime.fromtimestamp(key.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        click.echo(f"{key.id}  {made}  {key.tenant:<20} {key.scope:<6} {key.tier_cap:<9} {key.name}")


@keys.command()
@click.pass_obj
@click.argument("key_id")
def revoke(data: Path | None, key_id: str) -> None:
    """Forget the key KEY_ID; it is refused within seconds."""
    if not _store(data).revoke(key_id):
        raise click.ClickException(f"there is no key {key_id}; `posthouse keys list` shows them")
    click.echo(f"{key_id} is revoked")


def _store(data: Path | None) -> KeyStore:
    from app import bootstrap  # noqa: PLC0415 -- `--help` should not wait for it

    return bootstrap.key_store(configured.load_from_outside(data))
