"""`python -m model_pool.servers.paced`: serve until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
from pathlib import Path

import structlog
from aiohttp import web

from model_pool.servers.paced.engine import EngineConfig, PacedEngine
from model_pool.servers.paced.server import PacedServer
from model_pool.servers.paced.vocabulary import Vocabulary

_GRACE = 1.0  # seconds that open streams get at the end: draining is the worker's, which ends before its engine


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m model_pool.servers.paced", description=__doc__)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--uds", type=Path, metavar="PATH", help="listen on this Unix socket")
    place.add_argument("--port", type=int, help="listen on this port of the loopback address")
    parser.add_argument("--model", default="paced", metavar="NAME")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the shared word table")
    parser.add_argument("--ttft-ms", type=float, default=0, help="milliseconds to the first token")
    parser.add_argument("--tpot-ms", type=float, default=0, help="milliseconds for each further token")
    parser.add_argument("--max-concurrency", type=int, default=16, help="sequences at once; others wait in order")
    parser.add_argument("--context-length", type=int, default=4096, help="tokens of prompt and answer together")
    return parser.parse_args()


def main() -> None:
    """Parse the command line and serve."""
    options = _arguments()
    vocabulary = Vocabulary(options.data / "paced-words.jsonl")
    config = EngineConfig(
        options.ttft_ms / 1000, options.tpot_ms / 1000, options.max_concurrency, options.context_length
    )
    app = PacedServer(PacedEngine(config, vocabulary), options.model).app()
    if options.uds is not None:
        options.uds.unlink(missing_ok=True)  # what a killed predecessor left
    structlog.get_logger().info("paced_server_started", model=options.model, uds=str(options.uds), port=options.port)
    place = {"path": str(options.uds)} if options.uds is not None else {"host": "127.0.0.1", "port": options.port}
    web.run_app(app, **place, handler_cancellation=True, print=None, access_log=None, shutdown_timeout=_GRACE)


if __name__ == "__main__":
    main()
