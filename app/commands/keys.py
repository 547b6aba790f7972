"""`posthouse keys create | list | revoke | rotate`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from app.commands import configured
from app.errors import StorageFull, Unavailable

if TYPE_CHECKING:
    from app.services.keys import ApiKey, KeyStore

_LONGEST_GRACE = 7 * 86_400
_AWAY = (
    "the jobs Redis does not answer: is the stack running, and is redis.jobs_url (or --data) the one that it uses? "
    "Nothing was changed as far as is known; `posthouse keys list` shows it"
)


class _Keys(click.Group):
    """Says in one sentence that Redis is away."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except StorageFull as error:
            raise click.ClickException(error.message) from None
        except Unavailable:
            raise click.ClickException(_AWAY) from None


@click.group(cls=_Keys)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
@click.pass_context
def keys(context: click.Context, data: Path | None) -> None:
    """Create, list, revoke and rotate API keys."""
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
@click.option("--requests-per-minute", type=click.IntRange(min=1), help="Jobs that it may submit; default: any number.")
@click.option(
    "--tokens-per-minute", type=click.IntRange(min=1), help="Prompt and budget together; default: any number."
)
@click.option("--model", "models", multiple=True, help="A model that it may use; may be repeated. Default: all.")
def create(
    data: Path | None,
    *,
    tenant: str,
    scope: Literal["use", "admin"],
    tier: Literal["priority", "default", "flex"],
    name: str,
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
    models: tuple[str, ...],
) -> None:
    """Make a key and show its secret, this one time."""
    key, secret = _store(data).create(
        tenant, name=name, scope=scope, tier_cap=tier, requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute, models=models,
    )  # fmt: skip
    click.echo(f"{key.id} for tenant {key.tenant}, scope {key.scope}. Its secret, shown only now:", err=True)
    click.echo(secret)


@keys.command(name="list")
@click.pass_obj
def list_keys(data: Path | None) -> None:
    """Show all keys, without their secrets."""
    for key in _store(data).list():
        made = datetime.fromtimestamp(key.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        click.echo(f"{key.id}  {made}  {key.tenant:<20} {key.scope:<6} {key.tier_cap:<9} {_bounds(key)}{key.name}")


@keys.command()
@click.pass_obj
@click.argument("key_id")
def revoke(data: Path | None, key_id: str) -> None:
    """Forget the key KEY_ID; it is refused within seconds."""
    if not _store(data).revoke(key_id):
        raise _unknown(key_id)
    click.echo(f"{key_id} is revoked")


@keys.command()
@click.pass_obj
@click.argument("key_id")
@click.option(
    "--grace",
    type=click.IntRange(0, _LONGEST_GRACE),
    default=0,
    show_default=True,
    help="Seconds for which the secret before still works.",
)
def rotate(data: Path | None, key_id: str, grace: int) -> None:
    """Give the key KEY_ID a new secret and show it, this one time; tenant, rights and limits stay."""
    secret = _store(data).rotate(key_id, grace_seconds=grace)
    if secret is None:
        raise _unknown(key_id)
    until = f"for {grace} s more" if grace else "no longer"
    click.echo(f"{key_id} has a new secret, shown only now; the one before works {until}:", err=True)
    click.echo(secret)


def _bounds(key: ApiKey) -> str:
    """Limits and models in words; nothing where there are none."""
    found = [
        f"{key.requests_per_minute} requests/min" if key.requests_per_minute else "",
        f"{key.tokens_per_minute} tokens/min" if key.tokens_per_minute else "",
        "models " + ",".join(key.models) if key.models else "",
    ]
    return "".join(f"{text}  " for text in found if text)


def _unknown(key_id: str) -> click.ClickException:
    return click.ClickException(f"there is no key {key_id}; `posthouse keys list` shows them")


def _store(data: Path | None) -> KeyStore:
    from app import bootstrap  # noqa: PLC0415 -- `--help` should not wait for it

    return bootstrap.key_store(configured.load_from_outside(data))
