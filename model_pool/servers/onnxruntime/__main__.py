"""`python -m model_pool.servers.onnxruntime`: serve until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import onnxruntime_genai as og
from aiohttp import web

from model_pool.servers.face import running
from model_pool.servers.face.model_engine import ModelEngine
from model_pool.servers.face.model_tokenizer import ModelTokenizer
from model_pool.servers.face.server import FaceServer
from model_pool.servers.onnxruntime.source import OnnxSource


class OnnxServer(FaceServer[int]):
    """The face of one ONNX model."""

    def __init__(self, engine: ModelEngine, source: OnnxSource, model: str) -> None:
        super().__init__(engine, model)
        self._source = source

    def app(self) -> web.Application:
        app = super().app()
        app.on_startup.append(self._begin)
        return app

    async def _begin(self, _app: web.Application) -> None:
        self._source.run(asyncio.get_running_loop())


def _loaded(folder: Path, threads: int) -> Any:
    config = og.Config(str(folder))
    if threads:
        session = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
    return og.Model(config)


def _ends(folder: Path) -> list[int]:
    found = json.loads((folder / "genai_config.json").read_text())["model"]["eos_token_id"]
    return found if isinstance(found, list) else [found]


def main() -> None:
    """Parse the command line, load the model and serve."""
    parser = running.parser("model_pool.servers.onnxruntime", __doc__)
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="what the model builder has made")
    parser.add_argument("--threads", type=int, default=0, help="threads of the kernels; 0 leaves it to onnxruntime")
    options = parser.parse_args()
    source = OnnxSource(_loaded(options.folder, options.threads), _ends(options.folder))
    engine = ModelEngine(
        ModelTokenizer.from_folder(options.folder),
        source,
        context_length=options.context_length,
        max_concurrency=options.max_concurrency,
    )
    running.serve(OnnxServer(engine, source, options.model), options, "onnxruntime_server_started")


if __name__ == "__main__":
    main()
