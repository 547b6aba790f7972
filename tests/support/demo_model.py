"""The 4-bit demo model for tests, made once and kept where the other slow tests and benchmarks find it too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app import settings
from model_pool.quantize.demo import demo_folder_name

_MOST_SECONDS = 900


def demo_model() -> Path:
    """Its folder; built by a process of its own where there is none, as torch does not come into the test's."""
    folder = settings.Settings().models_dir.expanduser() / "models" / demo_folder_name()
    if not folder.exists():
        command = [sys.executable, "-m", "model_pool.quantize.demo", str(folder)]
        subprocess.run(command, check=True, timeout=_MOST_SECONDS)
    return folder
