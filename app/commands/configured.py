"""What most commands begin with: the settings, or a plain sentence about what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from app import settings

if TYPE_CHECKING:
    from pathlib import Path


def load_from_outside(data: Path | None) -> settings.Settings:
    """The settings for a command that looks into a running stack: embedded Redis servers are found by its data folder.

    Raises:
        click.ClickException: they cannot be used.
    """
    from app.up.ground import embedded_urls  # noqa: PLC0415 -- roles need nothing of it

    overrides: dict[str, Any] = {} if data is None else {"data_dir": data}
    found = load(**overrides)
    urls = embedded_urls(found)
    return load(**overrides, redis=urls) if urls else found


def load(config: Path | None = None, **overrides: Any) -> settings.Settings:
    """The settings in force.

    Raises:
        click.ClickException: they cannot be used; the message names the field.
    """
    if config is not None:
        settings.use_config_file(config)
    try:
        return settings.load(**overrides)
    except settings.ConfigurationError as error:
        raise click.ClickException(str(error)) from None
