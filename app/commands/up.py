"""`posthouse up`: the whole stack on one machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from app import settings
from app.up.wishes import Wishes

_PORT = click.IntRange(0, 65_535)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--config", type=_FILE, help="Configuration file (else $POSTHOUSE_CONFIG or ./posthouse.toml).")
@click.option("--port", type=_PORT, help="Port of the API; 0 takes any free one.  [default: 8080]")
@click.option("--data", type=_FOLDER, help="Folder for Redis, secrets and sockets.  [default: .posthouse]")
@click.option("--engine", help="Engine of every model; `paced` needs no model at all.")
@click.option("--instances", type=click.IntRange(1, 256), help="Instances of every model.")
@click.option("--dev-key", help="API key to accept, with every scope (else one is made and printed).")
def up(
    *,
    config: Path | None,
    port: int | None,
    data: Path | None,
    engine: str | None,
    instances: int | None,
    dev_key: str | None,
) -> None:
    """The whole stack on this machine, under one supervisor.

    Prints `ready URL` once a request would succeed. Ctrl-C drains and stops everything; a second one ends it at once.
    """
    from app.up import stack  # noqa: PLC0415 -- `--help` should not wait for it

    if config is not None:
        settings.use_config_file(config)
    try:
        status = stack.run(Wishes(port=port, data=data, engine=engine, instances=instances, dev_key=dev_key))
    except stack.EXPECTED as error:
        raise click.ClickException(str(error)) from None
    sys.exit(status)
