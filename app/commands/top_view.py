"""How `posthouse top` looks: one frame made of tables, from one `Overview`."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.services.lines import TIERS, Line
from app.services.overview import Overview
from app.services.pool import ModelState

_MOST_TENANTS = 8
_STYLES = {"ready": "green", "closed": "green", "half_open": "yellow", "open": "bold red", "unhealthy": "bold red"}


def frame(seen: Overview) -> Group:
    """The whole frame."""
    if seen.away:
        return Group(Text(f"the jobs Redis: {seen.away}", style="bold red"), _foot(seen))
    return Group(_lines(seen.models), _instances(seen.models), *_tenants(seen.models), _foot(seen))


def seconds(value: float | None) -> str:
    """A wait in few characters; a dash when nobody can say."""
    if value is None:
        return "-"
    minutes, rest = divmod(round(value), 60)
    return f"{value:.1f}s" if value < 60 else f"{minutes}m{rest:02d}s"  # noqa: PLR2004 -- a minute


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(
            name, justify="left" if name in {"model", "instance", "state", "breaker", "tenant"} else "right"
        )
    return table


def _lines(models: dict[str, ModelState]) -> Table:
    table = _table("lines", "model", "waiting", *TIERS.values(), "oldest", "expected wait", "places", "free")
    for name, state in models.items():
        line = state.line
        tiers = (str(line.tiers.get(tier, 0)) for tier in TIERS.values())
        table.add_row(
            name, str(line.waiting), *tiers, seconds(line.oldest_seconds), seconds(line.wait_seconds),
            str(line.places), str(line.free_places),
        )  # fmt: skip
    return table


def _instances(models: dict[str, ModelState]) -> Table:
    table = _table("instances", "instance", "state", "breaker", "running", "of", "tokens/s", "finished", "aborted")
    for state in models.values():
        for found in state.instances:
            counts = found["generations"]
            table.add_row(
                found["id"], _coloured(found["state"]), _coloured(found["breaker"]), str(found["in_flight"]),
                str(found["capacity"]), f"{found['tokens_per_second']:.1f}", str(counts["finished"]),
                str(counts["aborted"]),
            )  # fmt: skip
    return table


def _coloured(word: str) -> Text:
    return Text(word, style=_STYLES.get(word, "yellow"))


def _tenants(models: dict[str, ModelState]) -> list[RenderableType]:
    table = _table("tenants that wait", "tenant", "model", "waiting")
    for name, state in models.items():
        for tenant, waiting in _most(state.line):
            table.add_row(tenant, name, str(waiting))
    return [table] if table.row_count else []


def _most(line: Line) -> list[tuple[str, int]]:
    return sorted(line.tenants.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_TENANTS]


def _foot(seen: Overview) -> Text:
    ratio = seen.cache.hit_ratio
    hits = "-" if ratio is None else f"{ratio:.0%}"
    entries = f"{seen.cache.keys} keys" if seen.cache.available else "does not answer"
    memory = "  ".join(f"{role} {used:.0%}" for role, used in seen.memory.items()) or "-"
    lying = sum(seen.hints.values())
    totals = "  ".join(f"{name.replace('_', ' ')} {number}" for name, number in seen.totals.items())
    return Text(f"cache hits {hits} ({entries})   memory {memory}   hints {lying}   {totals}")
