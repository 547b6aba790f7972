"""Ports of the roles that only this machine talks to: found free once, kept in the data folder."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "ports.json"


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
    """A port that nobody listens on at this moment."""
    with socket.socket(_family(host)) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


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
