"""`posthouse jobs dead | retry`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from app.commands import configured
from app.errors import PosthouseError

if TYPE_CHECKING:
    from app.services.dead_letters import DeadLetters


@click.group()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
@click.pass_context
def jobs(context: click.Context, data: Path | None) -> None:
    """List dead letters and try them again."""
    context.obj = data


@jobs.command()
@click.pass_obj
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
def dead(data: Path | None, limit: int) -> None:
    """Show jobs that were given up after their last attempt, newest first."""
    for letter in _dead_letters(data).latest(limit):
        when = datetime.fromtimestamp(letter.ended_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        click.echo(f"{letter.id}  {when}  {letter.model:<20} {letter.tenant:<20} {letter.code}: {letter.message}")


@jobs.command()
@click.pass_obj
@click.argument("job_id")
def retry(data: Path | None, job_id: str) -> None:
    """Put the dead letter JOB_ID back in line, with new attempts."""
    try:
        _dead_letters(data).retry(job_id)
    except PosthouseError as error:
        raise click.ClickException(error.message) from None
    click.echo(f"{job_id} is queued again")


def _dead_letters(data: Path | None) -> DeadLetters:
    from app import bootstrap  # noqa: PLC0415 -- `--help` should not wait for it

    return bootstrap.dead_letters(configured.load_from_outside(data))
