"""`python -m model_pool.servers.transformers`: serve until SIGTERM or SIGINT."""

from __future__ import annotations

import torch
from aiohttp import web

from model_pool.servers.face import running
from model_pool.servers.face.model_engine import ModelEngine
from model_pool.servers.face.server import FaceServer
from model_pool.servers.transformers.loading import load
from model_pool.servers.transformers.source import BatchSource


class TransformersServer(FaceServer[int]):
    """The face of one PyTorch model."""

    def __init__(self, engine: ModelEngine, source: BatchSource, model: str) -> None:
        super().__init__(engine, model)
        self._source = source

    def app(self) -> web.Application:
        app = super().app()
        app.on_startup.append(self._begin)
        return app

    async def _begin(self, _app: web.Application) -> None:
        self._source.begin()


def main() -> None:
    """Parse the command line, load the model and serve."""
    parser = running.parser("model_pool.servers.transformers", __doc__)
    parser.add_argument("--path", required=True, help="a Hugging Face folder, a hub id, or a GGUF file")
    parser.add_argument("--revision", help="of a hub id")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--dtype", default="auto", help="auto, bfloat16, float16 or float32")
    parser.add_argument("--kv-tokens", type=int, help="tokens that the KV cache holds; measured on a GPU")
    parser.add_argument("--memory-share", type=float, help="share of the GPU's memory for the KV cache")
    parser.add_argument("--threads", type=int, default=0, help="threads of the CPU's kernels; 0 leaves it to PyTorch")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    loaded = load(options.path, options.revision, options.device, options.dtype)
    source = BatchSource(
        loaded,
        max_concurrency=options.max_concurrency,
        kv_tokens=options.kv_tokens,
        memory_share=options.memory_share,
    )
    engine = ModelEngine(
        loaded.tokenizer,
        source,
        context_length=options.context_length,
        max_concurrency=options.max_concurrency,
    )
    running.serve(TransformersServer(engine, source, options.model), options, "transformers_server_started")


if __name__ == "__main__":
    main()
