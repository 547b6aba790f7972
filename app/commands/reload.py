"""`posthouse reload`: a running `posthouse up` reads its configuration again."""

from __future__ import annotations

import os
from pathlib import Path

import click

from app.commands import configured


@click.command()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
def reload(*, data: Path | None) -> None:
    """Let a running `posthouse up` add, remove and change models as its configuration file now says.

    The file is checked first; an unusable one is an error, and nobody is told. What changes is said where
    `posthouse up` prints.
    """
    from app.up import fitness, running, session, stack  # noqa: PLC0415 -- `--help` should not wait for it

    folder = (data or configured.load().data_dir).resolve()
    found = running.find(folder)
    if found is None:
        raise click.ClickException(f"no `posthouse up` runs with the data folder {folder}; --data names another")
    file = Path(found.config)
    settings = configured.load(file if file.exists() else None)
    try:
        fitness.check(settings, besides={}, engine=found.engine)
    except stack.UNUSABLE as error:
        raise click.ClickException(str(error)) from None
    os.kill(found.pid, session.RELOAD_SIGNAL)
    click.echo(f"process {found.pid} reads {file} again, and says on its console what changes")
