"""From settings to the records that the model pool works with."""

from __future__ import annotations

from app.settings import Settings
from model_pool.devices import device_of
from model_pool.spec import InstanceSpec, ModelSpec


def instance_spec(settings: Settings, name: str, slot: int) -> InstanceSpec:
    """One instance of a model, from `[models.NAME]`.

    Raises:
        SpecError: the data folder's path is too long for a socket.
    """
    model = settings.models[name]
    spec = ModelSpec(
        name=name,
        engine=model.engine,
        path=model.path,
        revision=model.revision,
        quantization=model.quantization,
        context_length=model.context_length,
        max_concurrency=model.max_concurrency,
        max_output_tokens=model.max_output_tokens,
        memory_share=model.memory_share,
        options=model.options,
    )
    return InstanceSpec(spec, slot, device_of(model.devices, slot), settings.data_dir / "run")
