"""schemathesis reads /openapi.json and tries everything that it says: every check, thousands of cases."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.door import KEY
from tests.support.stack import Stack, environment
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "tests" / "support" / "schemathesis.toml"


def schemathesis(stack: Stack, folder: Path, *options: str) -> str:
    """What it prints; fails when a check did."""
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(CONFIG), "run",
        f"{stack.url}/openapi.json", "--header", f"Authorization: Bearer {KEY}", "--checks", "all",
        "--continue-on-failure", "--request-timeout", "120", "--max-response-time", "100",
        "--suppress-health-check", "all", *options,
    ]  # fmt: skip
    env = environment(SCHEMATHESIS_HOOKS="tests.support.schema_hooks", PYTHONPATH=str(ROOT))
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def cases(said: str) -> int:
    found = re.search(r"(\d+) generated", said)
    assert found, said[-2000:]
    return int(found[1])


@pytest.mark.slow
@pytest.mark.timeout(1600)
def test_thousands_of_cases_meet_no_fault_and_no_status_that_is_not_described(running_stack, tmp_path):
    wait_until(lambda: running_stack.get("/readyz")[0] == 200, what="the stack is ready", limit=60)
    engines = [running_stack.engine_pid(slot=slot) for slot in range(3)]
    assert cases(schemathesis(running_stack, tmp_path, "--max-examples", "150", "--seed", "1")) > 3000
    assert [running_stack.engine_pid(slot=slot) for slot in range(3)] == engines
