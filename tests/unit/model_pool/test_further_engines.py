"""Command lines, endpoints and refusals of the engines besides vLLM, paced and remote."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from model_pool import engines, ports
from model_pool.bodies import PLAIN, Dialect
from model_pool.spec import InstanceSpec, ModelSpec

NAMES = ("llama_cpp", "onnxruntime", "tensorrt_llm", "transformers")


def instance(engine, path="", *, device="cpu", run_dir=Path("/run/ph"), **fields):
    return InstanceSpec(ModelSpec("m", engine, str(path), **fields), 0, device, run_dir)


def following(command, flag):
    return command[command.index(flag) + 1]


@pytest.fixture
def gguf(tmp_path):
    (tmp_path / "model.gguf").touch()
    return tmp_path / "model.gguf"


@pytest.fixture
def empty_path(monkeypatch, tmp_path):
    """No program is found, whatever this machine has."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.fixture
def programs(monkeypatch, tmp_path):
    """Both programs are found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("llama-server", "trtllm-serve"):
        (folder / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize("name", ["onnxruntime", "transformers"])
def test_our_own_servers_get_socket_model_and_a_sequence_to_spare(name, tmp_path):
    command = engines.get(name).command(instance(name, tmp_path, max_concurrency=8, context_length=512))

    assert command[1:3] == ["-m", f"model_pool.servers.{name}"]
    assert following(command, "--uds") == "/run/ph/m.0.sock"
    assert following(command, "--max-concurrency") == "9"
    assert following(command, "--context-length") == "512"
    assert engines.get(name).endpoint(instance(name)).dialect == Dialect()


@pytest.mark.parametrize("name", NAMES)
def test_a_server_sees_its_own_gpu_only(name):
    """Two servers that both take the first GPU that they see would share one and leave the other idle."""
    engine = engines.get(name)

    assert engine.environment(instance(name, "org/m", device="cuda:3"))["CUDA_VISIBLE_DEVICES"] == "3"
    assert engine.environment(instance(name, "org/m", device="cpu"))["CUDA_VISIBLE_DEVICES"] == ""


def test_llama_server_on_the_path_comes_first(programs, gguf):
    command = engines.get("llama_cpp").command(instance("llama_cpp", gguf, max_concurrency=3, context_length=100))

    assert command[0] == str(programs / "llama-server")
    assert following(command, "--host") == "/run/ph/m.0.sock"
    assert following(command, "--ctx-size") == "400"
    assert "--no-cache-prompt" in command


def test_without_llama_server_the_modules_is_used(empty_path, gguf):
    command = engines.get("llama_cpp").command(instance("llama_cpp", gguf, device="cuda:0"))

    assert command[1:3] == ["-m", "model_pool.servers.llama_cpp"]
    assert command[-1] == "--gpu"


def test_llama_cpp_continues_by_text_alone():
    dialect = engines.get("llama_cpp").endpoint(instance("llama_cpp")).dialect

    assert (dialect.token_ids, dialect.continue_message) == (False, True)


def test_tensorrt_llm_keeps_its_port(programs, tmp_path):
    """Its client and all of its restarts have to agree on where it is."""
    spec = instance("tensorrt_llm", "org/model", device="cuda:0", run_dir=tmp_path / "run", revision="r1")
    engine = engines.get("tensorrt_llm")
    command = engine.command(spec)

    assert command[:2] == ["trtllm-serve", "org/model"]
    assert following(command, "--revision") == "r1"
    assert engine.endpoint(spec).base_url == f"http://127.0.0.1:{following(command, '--port')}"
    assert engine.endpoint(spec).dialect == PLAIN
    assert engine.command(spec) == command
    assert ports.port_of(spec) == int((tmp_path / "run" / "m.0.port").read_text())


def test_a_taken_port_is_no_start(tmp_path):
    """The supervisor takes an OSError for "not now" and tries again later."""
    import socket

    spec = instance("tensorrt_llm", "org/model", device="cuda:0", run_dir=tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports.port_of(spec)))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            engines.get("tensorrt_llm").command(spec)


def test_transformers_takes_the_only_gguf_file_of_a_folder(gguf):
    command = engines.get("transformers").command(instance("transformers", gguf.parent))
    assert following(command, "--path") == str(gguf)

    (gguf.parent / "other.gguf").touch()
    with pytest.raises(engines.EngineConfigError, match="several GGUF files"):
        engines.get("transformers").check(instance("transformers", gguf.parent))


def test_missing_programs_are_named(empty_path, gguf):
    with pytest.raises(engines.EngineConfigError, match="trtllm-serve"):
        engines.get("tensorrt_llm").check(instance("tensorrt_llm", "org/m", device="cuda:0"))
    if find_spec("xllamacpp") is None:
        with pytest.raises(engines.EngineConfigError, match="xllamacpp"):
            engines.get("llama_cpp").check(instance("llama_cpp", gguf))


@pytest.mark.parametrize(
    ("name", "device"),
    [("onnxruntime", "cuda:0"), ("tensorrt_llm", "cpu"), ("llama_cpp", "cuda"), ("llama_cpp", "gpu")],
)
def test_devices_that_an_engine_has_not_are_refused(programs, name, device):
    if name == "onnxruntime" and find_spec("onnxruntime_genai") is None:
        pytest.skip("onnxruntime-genai is not installed, which is refused first")
    with pytest.raises(engines.EngineConfigError, match="devices"):
        engines.get(name).check(instance(name, "org/m", device=device))


def test_weights_that_are_not_there_are_named(programs, tmp_path):
    with pytest.raises(engines.EngineConfigError, match="neither a GGUF file nor a folder with one"):
        engines.get("llama_cpp").check(instance("llama_cpp", tmp_path))


@pytest.mark.skipif(find_spec("onnxruntime_genai") is None, reason="onnxruntime-genai is not installed")
def test_a_folder_that_is_not_onnx_is_refused_with_the_cure(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({}))
    with pytest.raises(engines.EngineConfigError, match=r"no genai_config\.json.*quantize\.onnx"):
        engines.get("onnxruntime").check(instance("onnxruntime", tmp_path))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("llama_cpp", {"threads": 2}),
        ("llama_cpp", {"extra_args": "--verbose"}),
        ("llama_cpp", {"cpu_threads": 1.5}),
        ("tensorrt_llm", {"gpu_memory_utilization": 2}),
    ],
)
def test_options_that_an_engine_cannot_mean_are_refused(programs, gguf, name, options):
    device = "cpu" if name == "llama_cpp" else "cuda:0"
    with pytest.raises(engines.EngineConfigError, match=next(iter(options))):
        engines.get(name).check(instance(name, gguf, device=device, options=options))
