"""API and Celery processes never touch CUDA: what could, is not even imported there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_MODEL = '{"demo": {"engine": "vllm", "path": "org/model", "devices": ["cuda:0"]}}'
_HEAVY = ("torch", "vllm", "transformers", "onnxruntime", "onnxruntime_genai", "xllamacpp", "tensorrt_llm", "gptqmodel")
_REPORT = f"import sys; print([name for name in {_HEAVY!r} if name in sys.modules])"

PROCESSES = {
    "api": "import app.wsgi, app.api.gunicorn_conf, app.api.application, app.bootstrap",
    "worker": "import workers.main; from workers import wiring; wiring.instance_spec(workers.main.settings)",
    "webhooks": "import workers.main",
    "flower": "import workers.flower",
    "command line": "import app.cli, app.commands.up, app.up.stack",
}


@pytest.mark.parametrize("role", PROCESSES)
def test_no_role_imports_what_may_initialise_a_gpu(role, tmp_path):
    """Half a gigabyte, a CUDA context a process, and forks that hang: none of it where no model runs."""
    environment = {**os.environ, "POSTHOUSE_MODELS": _MODEL, "POSTHOUSE_DATA_DIR": str(tmp_path)}
    if role == "worker":
        environment |= {"POSTHOUSE_WORKER__MODEL": "demo"}

    done = subprocess.run(
        [sys.executable, "-c", f"{PROCESSES[role]}; {_REPORT}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_every_engine_is_judged_without_importing_it(tmp_path):
    """A worker checks its engine's options, packages and files before it starts the engine's own process."""
    code = (
        "from pathlib import Path\n"
        "from model_pool import engines\n"
        "from model_pool.spec import InstanceSpec, ModelSpec\n"
        "for name in engines.names():\n"
        f"    spec = InstanceSpec(ModelSpec('m', name, '/nowhere'), 0, 'cuda:0', Path({str(tmp_path)!r}))\n"
        "    try:\n"
        "        engines.get(name).check(spec)\n"
        "    except engines.EngineConfigError:\n"
        "        pass\n"
        f"{_REPORT}"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
