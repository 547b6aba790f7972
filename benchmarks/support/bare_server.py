"""Runs the bare Flask app under the gunicorn settings that the API has: one gevent worker, the same connections."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import httpx

from app.sections import ApiSettings
from tests.support.redis_process import RedisProcess, free_port
from tests.support.waiting import wait_until


@contextlib.contextmanager
def running() -> Iterator[int]:
    """The port of a running server over a Redis of its own."""
    server, port = RedisProcess(), free_port()
    server.client().set("answer", '{"id": "x", "object": "chat.completion", "choices": []}')
    words = [
        *(sys.executable, "-m", "gunicorn", "--worker-class", "gevent", "--workers", "1"),
        *("--worker-connections", str(ApiSettings().connections), "--bind", f"127.0.0.1:{port}"),
        "benchmarks.support.bare_flask:application()",
    ]
    process = subprocess.Popen(words, env=os.environ | {"BENCH_REDIS": server.url()}, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port), what="the bare app answers")
        yield port
    finally:
        process.terminate()
        process.wait(30)
        server.close()


def _answers(port: int) -> bool:
    try:
        return httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", json={"model": "m"}).is_success
    except httpx.TransportError:
        return False
