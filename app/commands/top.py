"""`posthouse top`: lines, tiers, tenants, waits, instances, breakers and the cache, live."""

from __future__ import annotations

import time
from pathlib import Path

import click

from app.commands import configured


@click.command()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of the running stack.")
@click.option("--every", type=click.FloatRange(min=0.2), default=1.0, show_default=True, help="Seconds between frames.")
@click.option("--once", is_flag=True, help="Print one frame and end; status 1 when the jobs Redis does not answer.")
def top(*, data: Path | None, every: float, once: bool) -> None:
    """A live view of queues, tiers, tenants, waits, instances, breakers and the cache. Ctrl-C ends it."""
    from rich.console import Console  # noqa: PLC0415 -- `--help` should not wait for it
    from rich.live import Live  # noqa: PLC0415

    from app import bootstrap  # noqa: PLC0415
    from app.commands.top_view import frame  # noqa: PLC0415

    overviews = bootstrap.overviews(configured.load_from_outside(data))
    if once:
        seen = overviews.look()
        Console(soft_wrap=True).print(frame(seen))
        raise SystemExit(1 if seen.away else 0)
    try:
        with Live(frame(overviews.look()), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(frame(overviews.look()), refresh=True)
    except KeyboardInterrupt:
        return
