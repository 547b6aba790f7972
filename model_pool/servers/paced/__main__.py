"""`python -m model_pool.servers.paced`: serve until SIGTERM or SIGINT."""

from __future__ import annotations

from pathlib import Path

from model_pool.servers.face import running
from model_pool.servers.paced.engine import EngineConfig, PacedEngine
from model_pool.servers.paced.server import PacedServer
from model_pool.servers.paced.vocabulary import Vocabulary


def main() -> None:
    """Parse the command line and serve."""
    parser = running.parser("model_pool.servers.paced", __doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the shared word table")
    parser.add_argument("--ttft-ms", type=float, default=0, help="milliseconds to the first token")
    parser.add_argument("--tpot-ms", type=float, default=0, help="milliseconds for each further token")
    options = parser.parse_args()
    config = EngineConfig(
        options.ttft_ms / 1000, options.tpot_ms / 1000, options.max_concurrency, options.context_length
    )
    engine = PacedEngine(config, Vocabulary(options.data / "paced-words.jsonl"))
    running.serve(PacedServer(engine, options.model), options, "paced_server_started")


if __name__ == "__main__":
    main()
