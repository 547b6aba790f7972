"""What `posthouse up` was asked for on its command line, and the settings that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from app.settings import Settings

DEMO = "demo"
PACED = "paced"
# The demo model lives on processors without a GPU: 16 sequences of 2,048 tokens fit the cache of 1 GiB well.
_DEMO_LIMITS = {"max_concurrency": 16, "context_length": 2048}
_PACED_LIMITS = {"max_concurrency": 64}


@dataclass(frozen=True)
class Wishes:
    """The options of `posthouse up`; None where nothing was said. Port 0 means any free one."""

    port: int | None = None
    data: Path | None = None
    engine: str | None = None
    instances: int | None = None
    dev_key: str | None = None


def demo_folder(settings: Settings, wishes: Wishes) -> Path | None:
    """Where the 4-bit demo model is kept between runs; None when another model is served.

    Raises:
        QuantizeError: the package that the demo model is made from is not installed.
    """
    if settings.models or wishes.engine == PACED:
        return None
    from model_pool.quantize.demo import demo_folder_name  # noqa: PLC0415 -- nobody else needs it

    return settings.models_dir.expanduser().resolve() / demo_folder_name()


def models(settings: Settings, wishes: Wishes, demo: Path | None) -> dict[str, dict[str, Any]]:
    """The models to run, as settings: the configured ones, else one that needs no configuration.

    `engine` and `instances` hold for all of them.
    """
    configured = {name: model.model_dump(mode="json") for name, model in settings.models.items()}
    chosen = configured or _default_model(demo)
    wanted: dict[str, Any] = {}
    if wishes.engine:
        wanted["engine"] = wishes.engine
    if wishes.instances:
        wanted["instances"] = wishes.instances
    return {name: {**model, **wanted} for name, model in chosen.items()}


def _default_model(demo: Path | None) -> dict[str, dict[str, Any]]:
    if demo is None:
        return {PACED: {"engine": PACED, **_PACED_LIMITS}}
    return {DEMO: {"engine": "vllm", "path": str(demo), **_DEMO_LIMITS}}
