"""Ports of the roles that only this machine talks to: found free once, kept in the data folder."""

from __future__ import annotations

import json
import secrets
import socket
from pathlib import Path

_FILE = "ports.json"
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_240
_TRIES = 200


class NoFreePortError(OSError):
    """All ports that were tried are taken."""


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now (as servers bind: with SO_REUSEADDR)."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def find_free(host: str) -> int:
    """A port that nobody listens on at this moment, below those that the kernel gives to outgoing connections.

    A server that is restarted must get its port back. Were the port one of the kernel's, any outgoing connection could
    hold it meanwhile, even a client's that looks for this very server: on loopback it can end up connected to itself.
    """
    highest = _first_outgoing_port() - 1
    for _ in range(_TRIES):
        port = secrets.choice(range(_LOWEST, highest)) if highest > _LOWEST else 0
        with socket.socket(_family(host)) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise NoFreePortError(f"no free port found on {host} in {_TRIES} tries")


def _first_outgoing_port() -> int:
    try:
        return int(_OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


class KeptPorts:
    """Names to ports, the same at every start as long as nobody else has taken them."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self._ports: dict[str, int] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def get(self, name: str, host: str = "127.0.0.1") -> int:
        port = self._ports.get(name)
        if port is None or not is_free(host, port):
            port = self._ports[name] = self._another(host)
            self._file.write_text(json.dumps(self._ports))
        return port

    def known(self, name: str) -> int | None:
        """The port as it was kept, whoever listens there now."""
        return self._ports.get(name)

    def _another(self, host: str) -> int:
        taken = set(self._ports.values())
        while (port := find_free(host)) in taken:
            continue
        return port


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
