"""What runs where: roles and their command lines, decided from settings alone."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from app.queueing import broker_url
from app.redis import jobs_server
from app.settings import ConfigurationError, Settings, file_stamp, load
from app.up import changes, entrypoints, plan, preflight, wishes
from app.up.role_files import RoleFiles
from app.up.roles import Stage
from app.up.wishes import Wishes


def settings(**sections: Any) -> Settings:
    return Settings(**sections)


TWO = {"support": {"engine": "paced", "instances": 2, "max_concurrency": 7}, "small": {"engine": "paced"}}


def test_one_gpu_worker_per_instance_and_one_of_each_other_role():
    names = [role.name for role in plan.roles(settings(models=TWO))]
    assert names == ["api", "gpu.support.0", "gpu.support.1", "gpu.small.0", "webhooks", "flower"]


def test_roles_are_the_commands_that_an_operator_would_type():
    commands = {role.name: role.command for role in plan.roles(settings(models=TWO))}
    assert commands["api"] == ("posthouse", "api")
    assert commands["gpu.support.1"] == ("posthouse", "worker", "support", "--slot", "1")
    assert commands["webhooks"] == ("posthouse", "webhooks")
    assert commands["flower"] == ("posthouse", "flower")


def test_posthouse_means_this_installation():
    api = plan.roles(settings(models=TWO))[0]
    assert api.argv == (sys.executable, "-m", "app.cli", "api")


def test_whoever_needs_another_role_ends_before_it():
    stages = {role.name.split(".")[0]: role.stage for role in plan.roles(settings(models=TWO))}
    assert stages["api"] < stages["gpu"] < stages["webhooks"] < stages["flower"] < Stage.REDIS


def test_a_role_gets_longer_than_its_own_drain_before_it_is_killed():
    found = settings(models=TWO, jobs={"drain_grace_seconds": 100}, api={"graceful_seconds": 50})
    graces = {role.name: role.grace for role in plan.roles(found)}
    assert graces["gpu.support.0"] > 100
    assert graces["api"] > 50


def option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


def test_a_gpu_worker_has_a_thread_per_sequence_and_consumes_its_queue_and_the_models():
    command = entrypoints.gpu_worker(settings(models=TWO), "support", 1)
    assert option(command, "--pool") == "threads"
    assert option(command, "--concurrency") == "7"
    assert option(command, "--queues") == "gpu.support.1,gpu.support"
    assert option(command, "--hostname") == "gpu-support-1@%h"
    assert option(command, "--prefetch-multiplier") == "1"
    assert "--task-events" in command


def test_workers_keep_the_heartbeat_that_flower_lives_on():
    for command in (
        entrypoints.gpu_worker(settings(models=TWO), "small", 0),
        entrypoints.webhook_worker(settings(models=TWO)),
    ):
        assert "--without-heartbeat" not in command


def test_the_webhook_worker_consumes_webhooks_only():
    assert option(entrypoints.webhook_worker(settings()), "--queues") == "webhooks"


def test_an_unknown_model_is_named_with_the_known_ones():
    with pytest.raises(entrypoints.UnknownModelError, match=r"nobody.*small, support"):
        entrypoints.gpu_worker(settings(models=TWO), "nobody", 0)


def test_without_a_config_the_paced_engine_serves_a_model_named_paced():
    asked = Wishes(engine="paced", instances=3)
    assert wishes.demo_folder(settings(), asked) is None
    models = wishes.models(settings(), asked, None)
    assert list(models) == ["paced"]
    assert models["paced"]["engine"] == "paced"
    assert models["paced"]["instances"] == 3


def test_without_a_config_vllm_serves_a_model_named_demo(tmp_path):
    models = wishes.models(settings(), Wishes(), tmp_path)
    assert models == {"demo": {"engine": "vllm", "path": str(tmp_path), "max_concurrency": 16, "context_length": 2048}}


def test_engine_and_instances_hold_for_every_configured_model():
    models = wishes.models(settings(models=TWO), Wishes(engine="vllm", instances=4), None)
    assert {(model["engine"], model["instances"]) for model in models.values()} == {("vllm", 4)}
    assert models["support"]["max_concurrency"] == 7


@pytest.fixture
def decided(tmp_path) -> Settings:
    return settings(
        models=TWO | {"small": {"engine": "paced", "fallback": ["support"], "options": {"ttft_ms": 5}}},
        data_dir=tmp_path,
        api={"port": 1234, "dev_key": "ph_dev"},
        redis={"jobs_url": "redis://:p@127.0.0.1:1/0"},
        flower={"password": "geheim"},
    )


def told(monkeypatch, variables: dict[str, str]) -> Settings:
    """What a role that gets these variables reads."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return load()


def test_roles_read_from_their_file_what_was_decided(monkeypatch, tmp_path, decided):
    files = RoleFiles(tmp_path, decided)
    assert told(monkeypatch, files.house(decided.models)) == decided
    assert told(monkeypatch, files.worker("small", 0, decided.models["small"])).models.keys() == {"small"}
    assert [oct(file.stat().st_mode & 0o777) for file in (tmp_path / "roles").iterdir()] == ["0o600"] * 2


def test_a_fallback_that_is_not_offered_is_not_told(monkeypatch, tmp_path, decided):
    files = RoleFiles(tmp_path, decided)
    assert told(monkeypatch, files.house({"small": decided.models["small"]})).models["small"].fallback == ()
    assert told(monkeypatch, files.house(decided.models)).models["small"].fallback == ("support",)


def test_the_stamp_of_the_file_follows_its_link_and_changes_with_it(monkeypatch, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    (tmp_path / "posthouse.toml").symlink_to("a")
    monkeypatch.setenv("POSTHOUSE_CONFIG", str(tmp_path / "posthouse.toml"))
    before = file_stamp()
    (tmp_path / "moved").symlink_to("b")
    (tmp_path / "moved").replace(tmp_path / "posthouse.toml")
    assert before not in {None, file_stamp()}
    (tmp_path / "b").unlink()
    assert file_stamp() is None


def test_what_a_changed_configuration_changes_is_told_without_values():
    before = settings(models=TWO)
    now = settings(
        models={"support": TWO["support"] | {"instances": 3, "options": {"k": "secret"}}, "new": {"engine": "paced"}},
        api={"port": 1},
    )
    assert changes.of_models(before.models, now.models) == [
        "new is new", "small goes", "support differs (instances, options)",
    ]  # fmt: skip
    assert changes.beyond_models(before, now) == ["api.port"]
    assert changes.of_models(now.models, now.models) == changes.beyond_models(now, now) == []


GOOD = {"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "aof_enabled": 1, "cluster_enabled": 0}


def test_a_jobs_redis_as_it_should_be_passes_without_a_word():
    assert preflight.check_jobs_redis(GOOD) == []
    assert preflight.check_jobs_redis({**GOOD, "redis_version": "6.2.0"}) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, "noeviction"),
        ({"maxmemory_policy": "volatile-ttl"}, "noeviction"),
        ({"redis_version": "6.0.16"}, "6.2 is the oldest"),
        ({"redis_version": "5.0"}, "6.2 is the oldest"),
        ({"cluster_enabled": 1}, "Cluster"),
    ],
)
def test_a_jobs_redis_that_may_lose_jobs_is_refused(change, words):
    with pytest.raises(preflight.PreflightError, match=words):
        preflight.check_jobs_redis({**GOOD, **change})


def test_a_jobs_redis_without_a_log_is_warned_of():
    assert "append-only" in preflight.check_jobs_redis({**GOOD, "aof_enabled": 0})[0]


def test_durability_is_held_against_what_the_jobs_redis_does():
    through = {**GOOD, "appendfsync": "always"}
    assert preflight.check_jobs_redis(through, "machine") == []
    for lacking in ({**GOOD, "appendfsync": "everysec"}, {**through, "aof_enabled": 0}):
        with pytest.raises(preflight.PreflightError, match="appendfsync"):
            preflight.check_jobs_redis(lacking, "machine")
    assert "no replica" in preflight.check_jobs_redis(GOOD, "replicated")[0]
    assert preflight.check_jobs_redis({**GOOD, "connected_slaves": 1}, "replicated") == []


@pytest.mark.parametrize(
    "told",
    [
        {"jobs_sentinels": ["no-port"]},
        {"jobs_sentinels": ["a:1"], "jobs_url": "rediss://host/0"},
        {"durability": "replicated", "replication_timeout": 1},
        {"durability": "sometimes"},
    ],
)
def test_redis_settings_that_cannot_work_are_refused(told):
    with pytest.raises(ConfigurationError):
        load(redis=told)


def test_celery_asks_every_sentinel_with_the_credentials_of_the_url():
    told = {"jobs_url": "redis://:p%40ss@ignored/3", "jobs_sentinels": ["a:1", "b:2"]}
    server = jobs_server(load(redis=told).redis)
    assert broker_url(server) == "sentinel://:p%40ss@a:1/3;sentinel://:p%40ss@b:2/3"


def test_a_cache_that_cannot_forget_is_warned_of():
    assert "allkeys-lru" in preflight.check_cache_redis(GOOD)[0]
    assert preflight.check_cache_redis({**GOOD, "maxmemory_policy": "allkeys-lru"}) == []


def test_a_taken_port_is_told_with_the_cure():
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(preflight.PreflightError, match=r"port is taken\. Give another"):
            preflight.check_port("the API", "127.0.0.1", taken.getsockname()[1], "Give another")
