"""Every example of docs/api.md runs as it stands there, with another model's name and address."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.support.api_document import BLOCKS, adapted
from tests.support.door import KEY
from tests.support.stack import environment

SHELL = [code for language, _, code in BLOCKS if language == "sh"]
PYTHON = [code for language, client, code in BLOCKS if language == "python" and not client]
COMMENT = re.compile(r"^# → (.*)$", re.MULTILINE)


def said_in_order(output: str, pieces: list[str]) -> bool:
    """Whether the output holds these pieces one after the other."""
    at = 0
    for piece in pieces:
        found = output.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def test_the_document_has_examples_of_all_kinds() -> None:
    assert {language for language, _, _ in BLOCKS} == {"text", "sh", "python", "js"}
    assert len(SHELL) >= 8
    assert len(PYTHON) >= 5


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_the_curl_examples_answer_as_shown(stack, tmp_path) -> None:
    script = "set -eu\n" + "\n".join(f"printf '\\n== {n} ==\\n'\n{code}" for n, code in enumerate(SHELL))
    env = environment(BASE=stack.url, KEY=KEY)
    done = subprocess.run(
        ["bash", "-c", adapted(script)], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    outputs = re.split(r"^== \d+ ==$", done.stdout, flags=re.MULTILINE)[1:]
    assert len(outputs) == len(SHELL)
    for code, output in zip(SHELL, outputs, strict=True):
        pieces = [piece.strip() for line in COMMENT.findall(adapted(code)) for piece in line.split("…")]
        assert said_in_order(output, pieces), (pieces, output)


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_the_python_examples_run(stack, monkeypatch, capsys, code) -> None:
    monkeypatch.setenv("BASE", stack.url)
    monkeypatch.setenv("KEY", KEY)
    exec(compile(adapted(code), "docs/api.md", "exec"), {"__name__": "__main__"})  # noqa: S102 -- our own document
    assert capsys.readouterr().out.strip() or "print(" not in code
