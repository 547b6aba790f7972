"""The page about engines: what each can do, and what was measured, between two marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_pool.measure import page
from model_pool.measure.measured import Measured
from model_pool.measure.subjects import SUBJECTS

ROOT = Path(__file__).parents[3]


@pytest.fixture
def content(tmp_path):
    first, second, *_ = SUBJECTS
    rows = {first: Measured(30.4, 0.2, 27.4, 350.2, 2_480_000_000), second: "it is not installed"}
    return page.tables(rows, tmp_path, "2 cores")


def test_every_engine_says_what_it_can_do(content):
    assert "| `vllm` | by token ids | yes |" in content
    assert "| `llama_cpp` | by its text |" in content
    assert "| `tensorrt_llm` | no |" in content
    assert '| `remote` | no; by token ids with `dialect = "vllm"` |' in content


def test_measured_rows_have_units_and_others_their_reason(content):
    assert "| `vllm` | GPTQ, 4 bits | 30 s | 200 ms | 27 tokens/s | 350 tokens/s | 2480 MB |" in content
    assert "not measured: it is not installed" in content


def test_only_what_stands_between_the_marks_is_rewritten():
    before = f"# Engines\n{page.BEGIN}\nold\n{page.END}\nwords\n"
    assert page.rewrite(before, "new") == f"# Engines\n{page.BEGIN}\nnew\n{page.END}\nwords\n"
    with pytest.raises(ValueError, match="no place"):
        page.rewrite("# Engines\n", "new")


def test_the_documents_table_is_about_the_engines_as_they_are(tmp_path):
    """An engine that learns something, or a new one, has to get into the page too."""
    shown = (ROOT / "docs" / "engines.md").read_text()
    abilities = page.tables({}, tmp_path, "").split("\n\n")[0]
    assert abilities in shown
