"""A loopback port for a server that cannot listen on a Unix socket: found free once, then the slot's own."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec

HOST = "127.0.0.1"
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_240
_TRIES = 200


def port_of(spec: InstanceSpec) -> int:
    """The slot's port, noted in the run folder: the same for the server and its client, over all restarts.

    Raises:
        OSError: no port is free, or the folder cannot be written.
    """
    note = spec.run_dir / f"{spec.id}.port"
    try:
        return int(note.read_text())
    except (FileNotFoundError, ValueError):
        spec.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        port = _free()
        note.write_text(f"{port}\n")
        return port


def check_free(port: int) -> None:
    """Find out before a start whether somebody else has taken the port meanwhile.

    Raises:
        OSError: somebody has.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))


def _free() -> int:
    """Below the ports of outgoing connections, any of which could hold the slot's port at its next start."""
    highest = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 0
    for _ in range(_TRIES):
        port = secrets.choice(range(_LOWEST, highest)) if highest > _LOWEST else 0
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    msg = f"no free port found on {HOST} in {_TRIES} tries"
    raise OSError(msg)
