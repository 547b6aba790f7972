"""Finding and watching the processes of a stack."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_line(process: psutil.Process) -> str:
    """Empty when the process is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def below(pid: int) -> list[psutil.Process]:
    """All descendants of a process; none when it is gone."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def find(processes: Iterable[psutil.Process], *marks: str) -> psutil.Process | None:
    """The first whose command line has all marks."""
    return next((p for p in processes if all(mark in command_line(p) for mark in marks)), None)


def mentioning(text: str) -> list[psutil.Process]:
    """Every process of this machine whose command line or environment names `text` (a stack's own folder)."""
    found = []
    for process in psutil.process_iter():
        try:
            known = process.cmdline() + [f"{name}={value}" for name, value in process.environ().items()]
        except psutil.Error:
            continue
        if lives(process) and any(text in word for word in known):
            found.append(process)
    return found


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("engine", timeout=2)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def engine_counts(path: Path) -> dict[str, Any]:
    """What a paced server counts, asked on its own socket: exact at this moment."""
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/stats")
        return dict(json.loads(connection.getresponse().read()))
    finally:
        connection.close()
