"""The int4 folder: whole or not at all, with the builder's own words where it fails."""

from __future__ import annotations

import sys

import pytest

from model_pool.quantize import onnx
from model_pool.quantize.errors import FolderError, QuantizeError, SourceMissingError

_MAKES = "import sys, pathlib; out = pathlib.Path(sys.argv[sys.argv.index('--output') + 1]); out.mkdir(); "
GOOD = _MAKES + f"[(out / name).write_text('x') for name in {onnx.MADE!r}]"
HALF = _MAKES + "(out / 'model.onnx').write_text('x')"
BAD = "print('no such layer'); raise SystemExit(3)"


def builder(code):
    return [sys.executable, "-c", code]


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("{}")
    return folder


def test_the_finished_folder_is_put_in_place(source, tmp_path):
    out = onnx.build(source, tmp_path / "made" / "out", command=builder(GOOD))

    assert {file.name for file in out.iterdir()} == set(onnx.MADE)
    assert {path.name for path in out.parent.iterdir()} == {"out", "out.lock", "out.log"}


def test_the_builder_is_asked_for_four_bits(source, tmp_path):
    words = _MAKES + "print(sys.argv); " + GOOD.removeprefix(_MAKES)
    out = onnx.build(source, tmp_path / "out", command=builder(words))

    said = onnx.log_of(out).read_text()
    assert "'--precision', 'int4'" in said
    assert f"'--input', '{source}'" in said


@pytest.mark.parametrize(
    ("code", "why"), [(BAD, r"status 3.*no such layer"), (HALF, r"made no genai_config\.json"), ("", "made no")]
)
def test_nothing_is_left_of_a_build_that_failed(source, tmp_path, code, why):
    with pytest.raises(QuantizeError, match=why):
        onnx.build(source, tmp_path / "out", command=builder(code))
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out.*"))


def test_an_existing_folder_is_never_overwritten(source, tmp_path):
    with pytest.raises(FolderError, match="there already"):
        onnx.build(source, source, command=builder(GOOD))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(SourceMissingError, match=r"lacks config\.json, tokenizer\.json"):
        onnx.build(tmp_path, tmp_path / "out", command=builder(GOOD))
