"""`python -m model_pool.quantize.demo` as a process, and what it really builds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from model_pool.quantize.build import REPORT_FILE
from model_pool.quantize.checkpoint import missing_files
from model_pool.quantize.demo import demo_folder_name
from model_pool.quantize.recipe import Recipe

COMMAND = (sys.executable, "-m", "model_pool.quantize.demo")


def run(*arguments: str, limit: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=limit, check=False)


def test_a_reason_and_the_log_are_named_when_there_is_no_model(tmp_path: Path):
    """The folder is in the way: one line why, one where the libraries' output is, and nothing is touched."""
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "config.json").write_text("{}")

    ended = run(str(folder))
    assert ended.returncode == 1
    assert "was not built: " in ended.stdout
    assert "lacks generation_config.json, model.safetensors" in ended.stdout
    assert str(tmp_path / "demo.log") in ended.stdout
    assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_wrong_usage_is_told():
    ended = run()

    assert ended.returncode == 2
    assert "usage:" in ended.stderr


def test_whoever_asks_for_the_folder_does_not_load_torch():
    """An API or Celery process that imports the module stays small."""
    program = (
        "import sys; from model_pool.quantize import demo; "
        "sys.exit(bool({'torch', 'transformers', 'gptqmodel', 'safetensors'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_build_that_is_told_to_stop_leaves_nothing_half_done(tmp_path: Path):
    folder = tmp_path / "demo"

    with subprocess.Popen([*COMMAND, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "Unpack" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.lock", "demo.log"]


@pytest.fixture(scope="module")
def model(pytestconfig: pytest.Config) -> Path:
    """The real model, built once and kept in pytest's cache."""
    assert pytestconfig.cache is not None
    folder = Path(pytestconfig.cache.mkdir("demo-model")) / demo_folder_name()
    ended = run(str(folder), limit=900)
    assert ended.returncode == 0, ended.stdout
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_the_demo_model_is_a_complete_4_bit_folder_of_its_size(model: Path):
    quantisation = json.loads((model / "config.json").read_text())["quantization_config"]
    expected = {"bits": 4, "group_size": 32, "quant_method": "gptq", "sym": True, "desc_act": False}

    assert {name: quantisation[name] for name in expected} == expected
    assert missing_files(model) == []
    assert 115e6 < sum(path.stat().st_size for path in model.iterdir()) < 125e6
    assert json.loads((model / "generation_config.json").read_text()) == {"bos_token_id": 1, "eos_token_id": 2}
    assert "<|im_end|>" in (model / "chat_template.jinja").read_text()


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_all_seven_matrices_of_each_layer_are_packed(model: Path):
    safetensors = pytest.importorskip("safetensors")

    with safetensors.safe_open(model / "model.safetensors", "pt") as file:
        packed = [name for name in file.keys() if name.endswith(".qweight")]  # noqa: SIM118 -- not a dict
        words = file.get_slice(packed[0])
        assert len(packed) == 30 * 7
        assert words.get_dtype() == "I32"


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_the_report_says_what_was_used_and_that_the_model_still_talks_sense(model: Path):
    report = json.loads((model / REPORT_FILE).read_text())

    assert report["calibration"]["usable"] == report["calibration"]["given"] == len(Recipe().chats)
    assert 1.0 < report["perplexity_ratio"] < Recipe().quality.perplexity_ratio
    assert "Paris" in report["quantised"]["answers"][0]
