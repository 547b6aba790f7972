"""`python -m model_pool.servers.llama_cpp`: serve until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from typing import Any

import structlog
import xllamacpp

_ALL_LAYERS = 999
_WARNINGS = 2


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m model_pool.servers.llama_cpp", description=__doc__)
    parser.add_argument("--uds", type=Path, required=True, metavar="PATH", help="listen here; must end with .sock")
    parser.add_argument("--model", required=True, metavar="NAME", help="the name under which the model is served")
    parser.add_argument("--file", type=Path, required=True, metavar="GGUF")
    parser.add_argument("--parallel", type=int, default=16, help="sequences at once")
    parser.add_argument("--context", type=int, default=4096, help="tokens of prompt and answer of each sequence")
    parser.add_argument("--threads", type=int, default=1, help="threads of the CPU's kernels")
    parser.add_argument("--gpu", action="store_true", help="put all layers on the GPU")
    return parser.parse_args()


def _params(options: argparse.Namespace) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(options.file)
    params.model_alias = {options.model}
    params.hostnames = [str(options.uds)]
    params.n_parallel = options.parallel
    params.n_ctx = options.parallel * options.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.n_gpu_layers = _ALL_LAYERS if options.gpu else 0
    params.cache_prompt = False  # one tenant's prompts would speed up another's, who could tell by the time
    # The request says how to sample: what it leaves out is not filled with llama.cpp's own taste.
    params.sampling.top_k, params.sampling.min_p, params.sampling.top_p, params.sampling.temp = 0, 0.0, 1.0, 1.0
    params.verbosity = _WARNINGS
    params.endpoint_slots = params.endpoint_props = params.ui = False
    return params


def main() -> None:
    """Parse the command line and serve."""
    options = _arguments()
    options.uds.unlink(missing_ok=True)  # what a killed predecessor left
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before the server's threads begin, which inherit it
    server = xllamacpp.Server(_params(options))
    structlog.get_logger().info("llama_cpp_server_started", model=options.model, address=server.listening_address)
    signal.sigwait(signals)


if __name__ == "__main__":
    main()
