"""The only file that reads the environment and `posthouse.toml`.

Precedence: constructor arguments, then environment (`POSTHOUSE_JOBS__LEASE_SECONDS=5`), then the file, then the
defaults written here. The file is TOML, or JSON where its name ends so, which is how `posthouse up` tells its
roles what it has decided. Nonsense is refused at start with a message that names the field and what to do; an unknown
field is nonsense too. What can be set stands in `app/sections.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    JsonConfigSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from app.sections import (
    MODEL_NAME,
    ApiSettings,
    BreakerSettings,
    FlowerSettings,
    HealthSettings,
    JobSettings,
    LocalCacheSettings,
    ModelSettings,
    RedisSettings,
    WebhookSettings,
    WorkerSettings,
)
from model_pool import devices

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConfigurationError(Exception):
    """The configuration is unusable; the message says which field and what to change."""


class Settings(BaseSettings):
    """Everything that an operator can set; frozen."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="POSTHOUSE_", env_nested_delimiter="__")

    models: dict[str, ModelSettings] = Field(default_factory=dict)
    redis: RedisSettings = RedisSettings()
    api: ApiSettings = ApiSettings()
    jobs: JobSettings = JobSettings()
    cache: LocalCacheSettings = LocalCacheSettings()
    health: HealthSettings = HealthSettings()
    breaker: BreakerSettings = BreakerSettings()
    webhooks: WebhookSettings = WebhookSettings()
    flower: FlowerSettings = FlowerSettings()
    worker: WorkerSettings = WorkerSettings()
    data_dir: Path = Path(".posthouse")
    models_dir: Path = Field(
        default=Path("~/.cache/posthouse"), description="where models that Posthouse makes itself are kept between runs"
    )
    secret_key: SecretStr = Field(
        default=SecretStr(""), description="encrypts webhook secrets at rest (Fernet, 32 bytes base64)"
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"

    @field_validator("models")
    @classmethod
    def _names_are_plain(cls, models: dict[str, ModelSettings]) -> dict[str, ModelSettings]:
        import re  # noqa: PLC0415 -- only here

        for name, model in models.items():
            if not re.match(MODEL_NAME, name):
                msg = f"models.{name}: a model name is letters, digits, '-' and '_', at most 63 (it names queues)"
                raise ValueError(msg)
            for other in model.fallback:
                if other not in models or other == name:
                    msg = f"models.{name}.fallback names {other!r}; it takes other models that are configured here"
                    raise ValueError(msg)
        return models

    @model_validator(mode="after")
    def _devices_are_shared_on_purpose(self) -> Self:
        devices.check(
            devices.Claim(f"{name}.{slot}", devices.device_of(model.devices, slot), model.memory_share)
            for name, model in self.models.items()
            for slot in range(model.instances)
        )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = config_file()
        sources = [init_settings, env_settings]
        if file is not None and file.suffix == ".json":
            sources.append(JsonConfigSettingsSource(settings_cls, json_file=file))
        elif file is not None:
            sources.append(TomlConfigSettingsSource(settings_cls, toml_file=file))
        return tuple(sources)


def config_file() -> Path | None:
    """The TOML file in force: `POSTHOUSE_CONFIG`, else `posthouse.toml` in the working directory, else None."""
    named = os.environ.get("POSTHOUSE_CONFIG")
    if named:
        return Path(named)
    here = Path("posthouse.toml")
    return here if here.exists() else None


def config_place() -> Path:
    """Where the file in force is, or would be found if there were one; absolute."""
    return Path(os.environ.get("POSTHOUSE_CONFIG") or "posthouse.toml").resolve()


def file_stamp() -> tuple[int, ...] | None:
    """What changes with the file in force, at the cost of one `stat`; None where there is none.

    Links are followed, so that a mounted Kubernetes ConfigMap is seen to change when its link is moved.
    """
    file = config_file()
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def process_environment(overrides: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment as a child process should get it, with `overrides` on top."""
    return {**os.environ, **(overrides or {})}


def foreign_environment() -> dict[str, str]:
    """This process's environment without any setting of ours, for children that are told all of them by a file."""
    return {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}


def use_config_file(path: Path) -> None:
    """Let this process, and the children that get its environment, read this file."""
    os.environ["POSTHOUSE_CONFIG"] = str(path.resolve())


def load(**overrides: Any) -> Settings:
    """Read and check the whole configuration.

    Raises:
        ConfigurationError: a file is missing or a value is unusable; the message lists every field at fault.
    """
    file = config_file()
    if file is not None and not file.is_file():
        msg = f"POSTHOUSE_CONFIG names {file}, which is not a file"
        raise ConfigurationError(msg)
    try:
        return Settings(**overrides)
    except (OSError, ValueError) as error:
        if not isinstance(error, ValidationError):  # no TOML, not readable
            raise ConfigurationError(f"{file} cannot be read: {error}") from None
        lines = [f"  {'.'.join(str(p) for p in e['loc']) or 'posthouse.toml'}: {e['msg']}" for e in error.errors()]
        raise ConfigurationError("the configuration cannot be used:\n" + "\n".join(lines)) from None
