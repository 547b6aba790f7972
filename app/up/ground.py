"""Prepares the ground of a stack on one machine: folder, lock, secrets, ports, embedded Redis, environment.

Pure of processes but for asking `redis-server --version`; nothing runs yet when it is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app import settings as configuration
from app.settings import ConfigurationError
from app.up import fitness, kept_secrets, ports, preflight, redis_server, wishes
from app.up.lock import lock_folder
from app.up.ports import KeptPorts

if TYPE_CHECKING:
    from pathlib import Path

    from app.settings import Settings
    from app.up.kept_secrets import StackSecrets
    from app.up.redis_server import Kind, RedisBinary
    from app.up.roles import Role
    from app.up.wishes import Wishes


@dataclass(frozen=True)
class Ground:
    """All that is decided before the first process starts.

    Attributes:
        settings: what every role will read.
        asked: what the operator's configuration says by itself.
        wished: what the command line says.
        decided: what neither of them says, or the second overrides: all but the models.
        environment: of every role, without settings of ours: each is told them by a file.
        redis: roles of the embedded servers; none where the configuration names its own.
        binary: what they run, if there are any.
        lock: descriptor of the data folder's lock, to be inherited by every role.
        demo_folder: where the demo model must be before its worker starts; None when it is not served.
    """

    settings: Settings
    asked: Settings
    wished: Wishes
    decided: dict[str, Any]
    environment: dict[str, str]
    redis: tuple[Role, ...]
    binary: RedisBinary | None
    lock: int
    demo_folder: Path | None


def prepare(wished: Wishes) -> Ground:
    """Decide everything and write it down.

    Raises:
        ConfigurationError: settings and options do not fit together.
        FolderInUseError: another stack runs with this data folder.
        PreflightError: a port is taken, the disk is full.
        QuantizeError: the demo model is wanted and what it is made from is not installed.
        RedisMissingError: an embedded Redis is wanted and there is none.
    """
    asked = configuration.load()
    folder = (wished.data or asked.data_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = lock_folder(folder)
    preflight.check_disk(folder)
    kept = kept_secrets.load_or_create(folder)
    embedded, urls, binary = _redis(asked, folder, kept)
    demo = wishes.demo_folder(asked, wished)
    decided = _decided(asked, wished, folder, kept, urls)
    return Ground(
        settings=configuration.load(models=wishes.models(asked, wished, demo), **decided),
        asked=asked,
        wished=wished,
        decided=decided,
        environment=configuration.foreign_environment(),
        redis=embedded,
        binary=binary,
        lock=lock,
        demo_folder=demo,
    )


def read_again(ground: Ground) -> tuple[Settings, Settings]:
    """The configuration as it stands now: what it says by itself, and what follows from it on this ground.

    Raises:
        ConfigurationError: it cannot be used, or names no model any more.
        EngineConfigError: an engine cannot serve a model that is new or has changed.
    """
    asked = configuration.load()
    if ground.asked.models and not asked.models:
        raise ConfigurationError("the configuration names no model any more")
    found = configuration.load(models=wishes.models(asked, ground.wished, ground.demo_folder), **ground.decided)
    fitness.check(found, besides=ground.settings.models)
    return asked, found


def embedded_urls(asked: Settings) -> dict[str, str]:
    """Addresses of the embedded servers that `posthouse up` last ran on the data folder of these settings.

    For the commands that look in from outside; empty where the configuration names its own servers or none ever ran.
    """
    folder = asked.data_dir
    if not (folder / "secrets.toml").exists():
        return {}
    password, kept = kept_secrets.load_or_create(folder).redis_password, KeptPorts(folder)
    known = {kind: kept.known(f"redis.{kind}") for kind in _unnamed(asked)}
    return {f"{kind}_url": redis_server.url(port, password) for kind, port in known.items() if port}


def _unnamed(asked: Settings) -> list[Kind]:
    """The Redis roles whose address nobody configured."""
    kinds: tuple[Kind, ...] = ("jobs", "cache")
    return [kind for kind in kinds if not asked.redis.model_fields_set & {f"{kind}_url", f"{kind}_sentinels"}]


def _redis(
    asked: Settings, folder: Path, kept: StackSecrets
) -> tuple[tuple[Role, ...], dict[str, str], RedisBinary | None]:
    """An embedded server for each role whose address nobody configured."""
    kinds = _unnamed(asked)
    if not kinds:
        return (), {}, None
    binary, kept_ports = redis_server.find_binary(), KeptPorts(folder)
    roles: list[Role] = []
    urls: dict[str, str] = {}
    for kind in kinds:
        port = kept_ports.get(f"redis.{kind}")
        roles.append(
            redis_server.prepare(
                kind, binary, folder, port=port, password=kept.redis_password, durability=asked.redis.durability
            )
        )
        urls[f"{kind}_url"] = redis_server.url(port, kept.redis_password)
    return tuple(roles), urls, binary


def _decided(asked: Settings, wished: Wishes, folder: Path, kept: StackSecrets, urls: dict[str, str]) -> dict[str, Any]:
    return {
        "data_dir": str(folder),
        "api": {
            "port": _api_port(asked, wished),
            "dev_key": wished.dev_key or asked.api.dev_key.get_secret_value() or kept.dev_key,
        },
        "redis": urls,
        "secret_key": asked.secret_key.get_secret_value() or kept.secret_key,
        "flower": {
            "port": _flower_port(asked, wished, folder),
            "password": asked.flower.password.get_secret_value() or kept.flower_password,
        },
    }


def _api_port(asked: Settings, wished: Wishes) -> int:
    host, port = asked.api.host, asked.api.port if wished.port is None else wished.port
    if port == 0:
        return ports.find_free(host)
    preflight.check_port("the API", host, port, "Stop that server, or give another --port (0 takes any free one).")
    return port


def _flower_port(asked: Settings, wished: Wishes, folder: Path) -> int:
    """The configured port; without one the usual port or, if any free one will do or it is taken, another."""
    host, port = asked.flower.host, asked.flower.port
    if "port" in asked.flower.model_fields_set:
        preflight.check_port("Flower", host, port, "Set flower.port to another one.")
        return port
    return port if wished.port != 0 and ports.is_free(host, port) else KeptPorts(folder).get("flower", host)
