"""The records that describe a model and its instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_pool.spec import SOCKET_PATH_LIMIT, InstanceSpec, ModelSpec, Quantization, SpecError


def test_an_instance_is_named_after_model_and_slot():
    """The id is stable over restarts, and every file of the instance is named after it."""
    spec = InstanceSpec(ModelSpec("support", "paced"), 2, "cpu", Path("/run/ph"))

    assert spec.id == "support.2"
    assert spec.socket == Path("/run/ph/support.2.sock")
    assert spec.record.parent == Path("/run/ph")


def test_a_socket_path_may_be_exactly_as_long_as_the_kernel_allows():
    """The limit itself is allowed, one byte more is not; bytes count, not characters."""
    model = ModelSpec("m", "paced")
    room = SOCKET_PATH_LIMIT - len("/") - len("/m.0.sock")

    assert InstanceSpec(model, 0, "cpu", Path("/" + "d" * room)).id == "m.0"
    with pytest.raises(SpecError, match=r"instance m\.0 .* 108 bytes .* shorter data folder"):
        InstanceSpec(model, 0, "cpu", Path("/" + "d" * (room + 1)))
    with pytest.raises(SpecError):
        InstanceSpec(model, 0, "cpu", Path("/" + "д" * (room // 2 + 1)))


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({}, "none"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}, "gptq-4bit-g32"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": -1}}, "gptq-4bit-row"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
    ],
)
def test_a_quantisation_is_named_by_all_that_changes_the_weights(config, name):
    """The name is part of the cache's key, so that two foldings of one model never answer for each other."""
    assert Quantization.of_config(config).id == name
