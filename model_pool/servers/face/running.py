"""The command line and the life of our own servers' processes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web

if TYPE_CHECKING:
    from model_pool.servers.face.server import FaceServer

_GRACE = 1.0  # seconds that open streams get at the end: draining is the worker's, which ends before its engine


def parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """The options that every one of our servers has."""
    made = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    place = made.add_mutually_exclusive_group(required=True)
    place.add_argument("--uds", type=Path, metavar="PATH", help="listen on this Unix socket")
    place.add_argument("--port", type=int, help="listen on this port of the loopback address")
    made.add_argument("--model", required=True, metavar="NAME", help="the name under which the model is served")
    made.add_argument("--max-concurrency", type=int, default=16, help="sequences at once; others wait in order")
    made.add_argument("--context-length", type=int, default=4096, help="tokens of prompt and answer together")
    return made


def serve(server: FaceServer[Any], options: argparse.Namespace, event: str) -> None:
    """Serve until SIGTERM or SIGINT; logs `event` before it listens."""
    if options.uds is not None:
        options.uds.unlink(missing_ok=True)  # what a killed predecessor left
    structlog.get_logger().info(event, model=options.model, uds=str(options.uds), port=options.port)
    place = {"path": str(options.uds)} if options.uds is not None else {"host": "127.0.0.1", "port": options.port}
    web.run_app(server.app(), **place, handler_cancellation=True, print=None, access_log=None, shutdown_timeout=_GRACE)
