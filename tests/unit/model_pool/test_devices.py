"""Two instances on one GPU only where the configuration says how they share it."""

from __future__ import annotations

import pytest

from model_pool import engines
from model_pool.devices import Claim, DeviceConflictError, check, device_of
from model_pool.spec import InstanceSpec, ModelSpec


def claims(*devices, share=None):
    return [Claim(f"m.{slot}", device, share) for slot, device in enumerate(devices)]


def test_devices_are_taken_in_turn():
    assert [device_of(("cuda:0", "cuda:1"), slot) for slot in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of((), 5) == "cpu"


@pytest.mark.parametrize("fitting", [("cuda:0", "cuda:1"), ("cpu",) * 4, ("cuda:0", "cpu"), ("cuda:0,1", "cuda:2")])
def test_devices_of_their_own_need_no_share(fitting):
    check(claims(*fitting))


@pytest.mark.parametrize("shared", [("cuda:0", "cuda:0"), ("cuda:0,1", "cuda:1"), ("cpu", "cuda:3", "cuda:3")])
def test_a_shared_gpu_is_refused_with_the_cure(shared):
    with pytest.raises(DeviceConflictError, match=r"would share cuda:\d.*models\.m\.memory_share = 0\.50"):
        check(claims(*shared))


def test_shares_that_fit_are_accepted():
    check(claims("cuda:0", "cuda:0", share=0.5))
    check(claims("cuda:0", "cuda:0", "cuda:0", share=1 / 3))


def test_shares_that_exceed_the_device_are_refused():
    with pytest.raises(DeviceConflictError, match=r"m\.0, m\.1 share cuda:0.*1\.20"):
        check(claims("cuda:0", "cuda:0", share=0.6))


def test_one_that_says_its_share_does_not_speak_for_the_other():
    """The one without takes all that it finds."""
    with pytest.raises(DeviceConflictError, match=r"models\.b\.memory_share"):
        check([Claim("a.0", "cuda:0", 0.4), Claim("b.0", "cuda:0")])


@pytest.mark.parametrize(("share", "told"), [(0.4, "0.4"), (None, "0.9")])
def test_vllm_takes_its_share(tmp_path, share, told):
    model = ModelSpec("m", "vllm", "org/m", memory_share=share)
    command = engines.get("vllm").command(InstanceSpec(model, 0, "cuda:0", tmp_path))
    assert command[command.index("--gpu-memory-utilization") + 1] == told
