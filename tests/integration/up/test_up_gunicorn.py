"""Gunicorn with our configuration, around a small application: how it stops, and what it cuts off."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from app.up.ports import find_free
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
PATIENCE = 30.0
APPLICATION = """
import gc

import gevent

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/frozen":
        return [str(gc.get_freeze_count()).encode()]
    def answer():
        yield b"begun"
        if environ["PATH_INFO"] == "/slow":
            gevent.sleep(1.5)
        yield b"ended"
    return answer()
"""


@pytest.fixture
def server(tmp_path):
    (tmp_path / "small.py").write_text(APPLICATION)
    port = find_free("127.0.0.1")
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--config", "python:app.api.gunicorn_conf", "small:app"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{tmp_path}",
            "POSTHOUSE_API__PORT": str(port),
            "POSTHOUSE_API__KEEP_ALIVE_SECONDS": "60",
            "POSTHOUSE_API__GRACEFUL_SECONDS": "60",
        },
    )
    wait_until(lambda: listens(port), what="the server listens", limit=PATIENCE, every=0.05)
    yield process, port
    if process.poll() is None:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def ask(port: int, path: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return connection


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    seen = b""
    while mark not in seen:
        chunk = connection.recv(4096)
        assert chunk, f"closed after {seen!r}"
        seen += chunk
    return seen


def test_idle_connections_do_not_hold_up_a_stop(server):
    process, port = server
    idle = ask(port, "/")
    read_until(idle, b"0\r\n\r\n")
    untouched = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    process.terminate()
    # Far less than the 60 s of keep-alive time and of grace that they would have lasted.
    assert process.wait(timeout=PATIENCE) == 0
    assert idle.recv(1) == b""
    assert untouched.recv(1) == b""


def test_an_answer_under_way_is_finished_before_the_end(server):
    process, port = server
    slow = ask(port, "/slow")
    read_until(slow, b"begun")
    process.terminate()
    read_until(slow, b"ended")
    assert process.wait(timeout=PATIENCE) == 0


def test_a_second_answer_on_a_connection_is_served(server):
    _, port = server
    connection = ask(port, "/")
    read_until(connection, b"0\r\n\r\n")
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    read_until(connection, b"0\r\n\r\n")


def test_a_head_without_end_is_refused(server):
    _, port = server
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(b"GET / HTTP/1.1\r\n" + b"x-a: " + b"b" * 20_000 + b"\r\n\r\n")
    status = read_until(connection, b"\r\n")
    assert b" 431 " in status or b" 400 " in status


def test_gunicorns_workers_end_when_their_master_is_killed(server):
    import psutil

    process, _ = server
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers
    process.kill()
    process.wait()
    assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == []


def test_what_was_loaded_is_no_longer_looked_at_for_garbage(server):
    _, port = server
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/frozen", timeout=PATIENCE) as answer:
        assert int(answer.read()) > 10_000
