"""Which instances of one host share a device, and whether the configuration says how."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GPU = "cuda"
# Shares are written by hand: 0.33 three times is meant to fit, 0.34 is not.
_TOLERANCE = 1e-6


class DeviceConflictError(ValueError):
    """Two instances would take the same device; the message names both and what to change."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one instance claims of a device.

    Attributes:
        instance: `<model>.<slot>`.
        device: `cpu`, or `cuda:N` with further numbers after commas.
        share: part of the device's memory, 0 to 1; None claims all of it.
    """

    instance: str
    device: str
    share: float | None = None


def check(claims: Iterable[Claim]) -> None:
    """Refuse what would end in an engine without memory, or in two that slow each other down unasked.

    A CPU is shared as processes always share it.

    Raises:
        DeviceConflictError: a GPU has several instances, and not all of them say their share, or the shares exceed it.
    """
    for device, sharing in _by_device(claims).items():
        if len(sharing) > 1:
            _check_shares(device, sharing)


def device_of(devices: Sequence[str], slot: int) -> str:
    """The device of a slot: the configured ones in turn, the CPU where none is configured."""
    return devices[slot % len(devices)] if devices else "cpu"


def _by_device(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    found: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        kind, _, numbers = claim.device.partition(":")
        if kind == _GPU:
            for number in numbers.split(","):
                found[f"{_GPU}:{number}"].append(claim)
    return found


def _check_shares(device: str, sharing: list[Claim]) -> None:
    names = ", ".join(claim.instance for claim in sharing)
    silent = sorted({claim.instance.rpartition(".")[0] for claim in sharing if claim.share is None})
    if silent:
        msg = (
            f"instances {names} would share {device}: give each a device of its own, or say what part of its memory "
            f"each may take, such as models.{silent[0]}.memory_share = {1 / len(sharing):.2f}"
        )
        raise DeviceConflictError(msg)
    total = sum(claim.share or 0.0 for claim in sharing)
    if total > 1 + _TOLERANCE:
        msg = f"instances {names} share {device}, but their memory_share adds up to {total:.2f}: it may be 1 at most"
        raise DeviceConflictError(msg)
