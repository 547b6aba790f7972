"""docker-compose.yml starts every role with the commands that `posthouse up` runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.settings import Settings
from app.up import plan, redis_server

ROOT = Path(__file__).parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def settings(monkeypatch) -> Settings:
    monkeypatch.setenv("POSTHOUSE_CONFIG", str(ROOT / "deploy" / "posthouse.toml"))
    return Settings()


def test_each_role_has_a_service_with_the_same_command(monkeypatch):
    wanted = {role.command for role in plan.roles(settings(monkeypatch))}
    found = {tuple(service["command"]) for service in SERVICES.values() if service["command"][0] == "posthouse"}
    assert found == wanted


def test_a_service_gets_at_least_the_time_to_drain_that_the_supervisor_gives(monkeypatch):
    graces = {role.command: role.grace for role in plan.roles(settings(monkeypatch))}
    for name, service in SERVICES.items():
        grace = graces.get(tuple(service["command"]))
        if grace is not None and grace > 10:
            assert float(service["stop_grace_period"].removesuffix("s")) >= grace, name


@pytest.mark.parametrize("kind", ["jobs", "cache"])
def test_both_redis_roles_have_the_policy_of_the_embedded_ones(kind):
    words = SERVICES[f"redis-{kind}"]["command"][-1].replace("--", "\n").splitlines()
    given = dict(word.strip().split(" ", 1) for word in words if " " in word.strip())
    for line in redis_server._OF_KIND[kind].splitlines():
        name, value = line.split(" ", 1)
        if name != "maxmemory":
            assert given[name] == value


def test_no_secret_has_a_default():
    text = (ROOT / "docker-compose.yml").read_text()
    for name in ("REDIS_PASSWORD", "POSTHOUSE_SECRET_KEY", "POSTHOUSE_FLOWER__PASSWORD"):
        assert f"${{{name}:?" in text
    example = (ROOT / "deploy" / "env.example").read_text()
    assert all(line.endswith("=") for line in example.splitlines() if line and not line.startswith("#"))


def test_only_the_api_is_reachable_from_outside():
    open_ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert open_ports == {"api": ["8080:8080"], "flower": ["127.0.0.1:5555:5555"]}


def test_the_sentinel_profile_has_a_replica_like_the_master_and_three_sentinels_of_the_default_service():
    profile = {name: service for name, service in SERVICES.items() if service.get("profiles") == ["sentinel"]}
    assert set(profile) == {"redis-jobs-replica", "sentinel-1", "sentinel-2", "sentinel-3"}
    master, replica = (SERVICES[name]["command"][-1] for name in ("redis-jobs", "redis-jobs-replica"))
    own = " --replica-announce-ip redis-jobs-replica --replicaof redis-jobs 6379"
    assert replica.replace(own, " --replica-announce-ip redis-jobs") == master
    told = profile["sentinel-1"]["command"][-1]
    service = Settings().redis.jobs_service
    assert f"sentinel monitor {service} redis-jobs 6379 2\n" in told
    assert len({service["volumes"][0] for name, service in profile.items()}) == len(profile)
