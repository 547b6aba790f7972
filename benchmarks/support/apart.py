"""Load generators are processes of their own: a plan goes in as JSON on stdin, what was found comes out on stdout."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_LIMIT = 600.0


def run(module: str, plan: DataclassInstance) -> Any:
    """Run `python -m module` with this plan; what it printed, parsed.

    Raises:
        RuntimeError: it failed; the message ends with what it wrote to stderr.
        subprocess.TimeoutExpired: it took longer than ten minutes.
    """
    words, text = [sys.executable, "-m", module], json.dumps(dataclasses.asdict(plan))
    found = subprocess.run(words, input=text, capture_output=True, text=True, timeout=_LIMIT, check=False)
    if found.returncode:
        raise RuntimeError(f"the load failed:\n{found.stderr[-4000:]}")
    return json.loads(found.stdout)
