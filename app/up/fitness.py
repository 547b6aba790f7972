"""Whether engines can serve models as configured, asked before anything that serves is given up for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.services.specs import instance_spec
from model_pool import engines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.sections import ModelSettings
    from app.settings import Settings


def check(settings: Settings, besides: Mapping[str, ModelSettings], engine: str = "") -> None:
    """Look at each model that is not among `besides` as it is; `engine` serves all of them, if it is named.

    Raises:
        EngineConfigError: what would let a start fail.
        SpecError: the path of its socket would be too long.
    """
    for name, model in settings.models.items():
        if besides.get(name) != model:
            for slot in range(model.instances):
                engines.get(engine or model.engine).check(instance_spec(settings, name, slot))
