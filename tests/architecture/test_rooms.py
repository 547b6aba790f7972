"""Every package of ours is a room of the house; import-linter's contracts say which may import which."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BESIDE_THE_HOUSE = {"tests", "benchmarks"}


def test_every_package_is_a_root_of_the_contracts() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {line.split("/")[0] for line in listed.splitlines() if "/" in line}
    roots = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    assert found - BESIDE_THE_HOUSE == set(roots)
