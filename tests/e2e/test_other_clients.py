"""Clients that others wrote hold a conversation: OpenAI's JavaScript SDK, LangChain, LiteLLM."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.api_document import BLOCKS, adapted
from tests.support.door import KEY
from tests.support.stack import Stack, environment

pytestmark = pytest.mark.slow
SDK = "openai@6"
CONFORMANCE = Path(__file__).parents[1] / "support" / "conformance.mjs"
[JAVASCRIPT] = [code for language, _, code in BLOCKS if language == "js"]
CLIENTS = {client: code for _, client, code in BLOCKS if client}
PACKAGES = {"langchain": "langchain_openai", "litellm": "litellm"}


def run(stack: Stack, command: list[str], folder: Path) -> str:
    """What an example prints."""
    # LiteLLM would fetch a list of prices first.
    env = environment(BASE=stack.url, KEY=KEY, MODEL="paced", LITELLM_LOCAL_MODEL_COST_MAP="True")
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Path:
    """A folder with the SDK, installed once by npm and kept in pytest's cache."""
    if not shutil.which("npm"):
        pytest.skip("no npm here")
    folder = Path(pytestconfig.cache.mkdir("javascript-sdk"))
    if not (folder / "node_modules" / "openai").exists():
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), SDK]
        subprocess.run(command, check=True, timeout=150, capture_output=True)
    return folder


def test_the_javascript_sdk_knows_every_endpoint_and_event(stack, node):
    script = node / "conformance.mjs"
    script.write_text(CONFORMANCE.read_text())
    assert "all is well" in run(stack, ["node", str(script)], node)


def test_the_javascript_example_runs(stack, node):
    script = node / "example.mjs"
    script.write_text(adapted(JAVASCRIPT))
    output = run(stack, ["node", str(script)], node)
    assert "Name three rivers." in output
    assert "404 model_not_found" in output


@pytest.mark.parametrize("client", PACKAGES)
def test_a_client_holds_a_streamed_conversation(stack, client, tmp_path):
    if importlib.util.find_spec(PACKAGES[client]) is None:
        pytest.skip(f"{PACKAGES[client]} is not installed: it comes with the extra `clients`")
    said = run(stack, [sys.executable, "-c", adapted(CLIENTS[client])], tmp_path).splitlines()
    assert said[-2:] == ["A horse, please.", "And a saddle."]
