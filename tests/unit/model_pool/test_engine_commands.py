"""How engines are started, what a request may carry to them, and what they refuse before a start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from model_pool import engines
from model_pool.engines.base import COMMON_FIELDS, WORKER_FIELDS
from model_pool.engines.vllm import Vllm
from model_pool.spec import InstanceSpec, ModelSpec


def instance(model, device="cpu"):
    return InstanceSpec(model, 1, device, Path("/run/ph"))


def following(command, flag):
    return command[command.index(flag) + 1]


@pytest.fixture
def folder(tmp_path):
    """A folder that looks like a servable model."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return tmp_path


def test_engines_are_found_by_name():
    """An unknown name is answered with those that exist."""
    assert engines.get("paced").name == "paced"
    with pytest.raises(engines.EngineConfigError, match=r"'vlm' is unknown; known engines: .*paced.*vllm"):
        engines.get("vlm")


@pytest.mark.parametrize("name", engines.names())
def test_no_client_may_send_what_belongs_to_the_worker(name):
    """Scheduling, isolation and prompt building are never a client's, whatever an engine would accept."""
    fields = engines.get(name).request_fields

    # What an engine cannot do is left out, so that a request for it is refused rather than misunderstood.
    assert fields >= COMMON_FIELDS - {"seed", "presence_penalty", "frequency_penalty"}
    assert not fields & WORKER_FIELDS


def test_paced_is_started_with_its_pace_and_a_sequence_to_spare():
    """The probe of a busy instance must not wait for one of the model's own sequences."""
    model = ModelSpec("p", "paced", max_concurrency=8, context_length=99, options={"ttft_ms": 50, "tpot_ms": 2.5})

    command = engines.get("paced").command(instance(model))

    assert command[:3] == [sys.executable, "-m", "model_pool.servers.paced"]
    assert following(command, "--uds") == "/run/ph/p.1.sock"
    assert following(command, "--model") == "p"
    assert following(command, "--ttft-ms") == "50"
    assert following(command, "--tpot-ms") == "2.5"
    assert following(command, "--max-concurrency") == "9"
    assert following(command, "--context-length") == "99"


def test_instances_of_paced_share_one_word_table():
    """Otherwise one could not continue the answer that another began."""
    first, second = (
        engines.get("paced").command(InstanceSpec(ModelSpec("p", "paced"), slot, "cpu", Path("/run/ph")))
        for slot in (0, 1)
    )

    assert following(first, "--data") == following(second, "--data")


@pytest.mark.parametrize("options", [{"ttft": 5}, {"ttft_ms": "5"}, {"tpot_ms": -1}, {"tpot_ms": True}])
def test_paced_refuses_options_that_it_cannot_mean(options):
    """A misspelt or misfit option is named."""
    with pytest.raises(engines.EngineConfigError, match=next(iter(options))):
        engines.get("paced").check(instance(ModelSpec("p", "paced", options=options)))


def test_vllm_is_started_by_its_module_on_the_socket(folder):
    """Its `serve` command does not work with the CPU build's package name."""
    model = ModelSpec("s", "vllm", path=str(folder), max_concurrency=16, context_length=2048)

    command = Vllm().command(instance(model))

    assert following(command, "-m") == "vllm.entrypoints.openai.api_server"
    assert following(command, "--uds") == "/run/ph/s.1.sock"
    assert following(command, "--model") == str(folder)
    assert following(command, "--served-model-name") == "s"
    assert following(command, "--max-model-len") == "2048"
    assert following(command, "--max-num-seqs") == "17"
    assert following(command, "--generation-config") == "vllm"
    assert "--enforce-eager" in command
    assert "--no-enable-log-requests" in command
    assert "--gpu-memory-utilization" not in command
    assert "--quantization" not in command


def test_vllm_on_the_cpu_has_bounded_memory_and_calls_nobody(folder):
    """The KV cache has a size, a local folder needs no hub, and usage statistics stay at home."""
    environment = Vllm().environment(instance(ModelSpec("s", "vllm", path=str(folder))))

    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert environment["VLLM_NO_USAGE_STATS"] == environment["DO_NOT_TRACK"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in environment


def test_vllm_on_the_cpu_keeps_a_core_free_for_everybody_else(folder, monkeypatch):
    """The API server and the scheduler need one too; on a single core there is none to spare."""
    for cores, threads in ((1, "1"), (2, "1"), (8, "7")):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, n=cores: set(range(n)))
        assert Vllm().environment(instance(ModelSpec("s", "vllm", path=str(folder))))["OMP_NUM_THREADS"] == threads


def test_vllm_binds_threads_where_the_operator_says_so(folder):
    """Binding is the work of vLLM's own worker process, so that one is started then."""
    model = ModelSpec("s", "vllm", path=str(folder), options={"cpu_threads_bind": "0-3"})

    environment = Vllm().environment(instance(model))

    assert environment["VLLM_CPU_OMP_THREADS_BIND"] == "0-3"
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" not in environment


def test_vllm_keeps_its_temporary_files_in_the_slot_where_the_path_allows(folder):
    """Its sockets there have a UUID for a name, and paths of sockets are short."""
    model = ModelSpec("s", "vllm", path=str(folder))
    deep = Path("/" + "d" * 80)

    assert Vllm().environment(instance(model))["TMPDIR"] == "/run/ph/s.1.tmp"
    assert "TMPDIR" not in Vllm().environment(InstanceSpec(model, 1, "cpu", deep))


def test_vllm_on_a_gpu_sees_only_its_device():
    """Two instances of one host must not meet on the first GPU."""
    model = ModelSpec("s", "vllm", path="org/model", revision="abc", options={"gpu_memory_utilization": 0.5})

    command = Vllm().command(instance(model, "cuda:3"))
    environment = Vllm().environment(instance(model, "cuda:3"))

    assert environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert "HF_HUB_OFFLINE" not in environment
    assert following(command, "--gpu-memory-utilization") == "0.5"
    assert following(command, "--revision") == "abc"
    assert "--enforce-eager" not in command


def test_vllm_passes_extra_arguments_last(folder):
    """What the operator writes wins over what stands before it."""
    extra = ["--max-num-batched-tokens", "512"]
    command = Vllm().command(instance(ModelSpec("s", "vllm", path=str(folder), options={"extra_args": extra})))

    assert command[-2:] == extra


def test_vllm_is_told_how_a_model_calls_tools_and_reasons(folder):
    """Without a parser calls and reasoning would stand in the text."""
    options = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}
    command = Vllm().command(instance(ModelSpec("s", "vllm", path=str(folder), options=options)))
    assert "--enable-auto-tool-choice" in command
    assert (following(command, "--tool-call-parser"), following(command, "--reasoning-parser")) == ("hermes", "qwen3")


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("config.json", r"config\.json"),
        ("tokenizer.json", "tokenizer"),
        ("model.safetensors", "weights"),
        ("tokenizer_config.json", "chat template"),
    ],
)
def test_vllm_names_what_a_model_folder_lacks(folder, missing, said):
    """A start that takes half a minute to fail says less than this check."""
    model = ModelSpec("s", "vllm", path=str(folder))
    Vllm().check(instance(model))
    (folder / missing).unlink()

    with pytest.raises(engines.EngineConfigError, match=rf"models\.s\.path: .* has no .*{said}"):
        Vllm().check(instance(model))


@pytest.mark.parametrize("path", ["", "/no/such/folder", "./missing", "missing"])
def test_vllm_refuses_a_path_that_leads_nowhere(path):
    """Neither a folder nor the form of a hub id."""
    with pytest.raises(engines.EngineConfigError, match=r"models\.s\.path"):
        Vllm().check(instance(ModelSpec("s", "vllm", path=path)))


def test_vllm_takes_a_missing_sub_folder_for_a_mistake_not_for_a_hub_id(tmp_path, monkeypatch):
    """`models/support` beside an existing folder `models` is a misspelt folder."""
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(engines.EngineConfigError, match="no folder models/support"):
        Vllm().check(instance(ModelSpec("s", "vllm", path="models/support")))
    Vllm().check(instance(ModelSpec("s", "vllm", path="organisation/support")))


@pytest.mark.parametrize(
    "options",
    [
        {"cpu_kvcache_space_gb": 0.5},
        {"cpu_kvcache_space_gb": "1"},
        {"cpu_threads": 1.5},
        {"gpu_memory_utilization": 1.5},
        {"dtype": "int4"},
        {"enforce_eager": "no"},
        {"extra_args": "--flag"},
        {"tool_call_parser": ""},
        {"tool_call_parser": 1},
        {"reasoning_parser": "--flag"},
        {"max_len": 5},
    ],
)
def test_vllm_refuses_options_that_it_cannot_mean(folder, options):
    """Each is named, so that nobody has to read vLLM's usage text."""
    with pytest.raises(engines.EngineConfigError, match=rf"models\.s\.options\.{next(iter(options))}"):
        Vllm().check(instance(ModelSpec("s", "vllm", path=str(folder), options=options)))


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:x", ""])
def test_vllm_refuses_a_device_that_it_does_not_know(folder, device):
    """A device is `cpu` or `cuda:N`."""
    with pytest.raises(engines.EngineConfigError, match="devices"):
        Vllm().check(instance(ModelSpec("s", "vllm", path=str(folder)), device))
