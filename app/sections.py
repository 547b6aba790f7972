"""What operators can set: the sections of `posthouse.toml`, their bounds, and what has to fit together. Reads nothing.

All durations are in seconds unless a name says otherwise. A message of a rule names the field and what to do.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
_LATE_ACK_MARGIN = 60.0
# As browsers send it: lower case, no path, no default port.
_ORIGIN = r"^(\*|https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?)$"

_HOST_PORT = r"^[^\s:@/\[\]]+:[0-9]{1,5}$"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CacheSettings(_Section):
    """`[models.NAME.cache]`: which answers of a model may be served again, and for how long."""

    policy: Literal["off", "deterministic", "all"] = "deterministic"
    ttl: float = Field(default=600, gt=0, le=86_400 * 30)
    jitter: float = Field(default=0.2, ge=0, le=0.9)
    stale_seconds: float = Field(default=3600, ge=0, le=86_400 * 30)


class ModelSettings(_Section):
    """`[models.NAME]`: one model and how many instances of it run on this host."""

    engine: str = "vllm"
    path: str = ""
    revision: str = ""
    quantization: str = ""
    instances: int = Field(default=1, ge=1, le=256)
    devices: tuple[str, ...] = ()
    memory_share: float | None = Field(
        default=None, gt=0, le=1, description="of its device's memory, for instances that share one; None: all of it"
    )
    max_concurrency: int = Field(default=16, ge=1, le=1024)
    context_length: int = Field(default=4096, ge=16)
    max_output_tokens: int | None = Field(default=None, ge=1)
    policy: Literal["round_robin", "least_loaded"] = "round_robin"
    rollout: Literal["surge", "replace"] | None = None
    fallback: tuple[str, ...] = ()
    busy_reply: str | None = None
    cache: CacheSettings = CacheSettings()
    options: dict[str, Any] = Field(default_factory=dict, description="engine-specific, checked by the engine's file")


class LocalCacheSettings(_Section):
    """`[cache]`: the small cache that each API process keeps in front of Redis."""

    local_entries: int = Field(default=1000, ge=0)
    local_bytes: int = Field(default=32 * 1024 * 1024, ge=0)
    entry_bytes: int = Field(default=1024 * 1024, ge=1)


class RedisSettings(_Section):
    """`[redis]`: the two roles. `jobs` keeps records and queues (AOF, noeviction), `cache` may forget."""

    jobs_url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    cache_url: SecretStr = SecretStr("redis://127.0.0.1:6380/0")
    jobs_timeout: float = Field(default=1.0, gt=0, le=30)
    cache_timeout: float = Field(default=0.05, gt=0, le=5)
    jobs_sentinels: tuple[Annotated[str, Field(pattern=_HOST_PORT)], ...] = ()
    jobs_service: str = Field(default="posthouse-jobs", min_length=1)
    cache_sentinels: tuple[Annotated[str, Field(pattern=_HOST_PORT)], ...] = ()
    cache_service: str = Field(default="posthouse-cache", min_length=1)
    sentinel_password: SecretStr = SecretStr("")
    durability: Literal["process", "machine", "replicated"] = "process"
    replication_timeout: float = Field(default=0.5, gt=0, le=30)

    @model_validator(mode="after")
    def _roles_fit_together(self) -> Self:
        for role in ("jobs", "cache"):
            url: SecretStr = getattr(self, f"{role}_url")
            if getattr(self, f"{role}_sentinels") and not url.get_secret_value().startswith("redis://"):
                msg = (
                    f"redis.{role}_url: with redis.{role}_sentinels it must be redis://[:password@]host/db "
                    "(the Sentinels say the host)"
                )
                raise ValueError(msg)
        if self.durability == "replicated" and self.replication_timeout >= self.jobs_timeout:
            msg = (
                f"redis.replication_timeout is {self.replication_timeout:g}, but a reply is waited for only "
                f"redis.jobs_timeout = {self.jobs_timeout:g} seconds: lower the first or raise the second."
            )
            raise ValueError(msg)
        return self


class ApiSettings(_Section):
    """`[api]`: the HTTP face."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65_535)
    processes: int = Field(default=1, ge=1, le=64)
    connections: int = Field(default=4000, ge=10)
    body_limit: int = Field(default=1024 * 1024, ge=1024)
    keep_alive_seconds: float = Field(default=15, gt=0, le=60)
    slow_sender_seconds: float = Field(default=20, gt=0)
    graceful_seconds: float = Field(default=30, gt=0)
    cors_origins: tuple[Annotated[str, Field(pattern=_ORIGIN)], ...] = Field(
        default=(), description="origins whose pages may call: `https://shop.example`, or `*` for all"
    )
    dev_key: SecretStr = Field(
        default=SecretStr(""), description="one key with every scope for tenant `dev`, without a record; empty: none"
    )


class JobSettings(_Section):
    """`[jobs]`: leases, limits and retention of jobs and generations."""

    lease_seconds: float = Field(default=10, gt=0)
    renew_seconds: float = Field(default=1, gt=0)
    reaper_tick_seconds: float = Field(default=0.5, gt=0)
    flush_seconds: float = Field(default=0.02, gt=0, le=1)
    max_attempts: int = Field(default=3, ge=1, le=20)
    deadline_seconds: float = Field(default=600, gt=0)
    max_deadline_seconds: float = Field(default=86_400, gt=0)
    longest_run_seconds: float = Field(default=600, gt=0)
    visibility_timeout_seconds: float = Field(default=1800, gt=0)
    retention_seconds: float = Field(default=72 * 3600, gt=0)
    unstored_retention_seconds: float = Field(default=600, gt=0)
    idempotency_seconds: float = Field(default=86_400, gt=0)
    queue_cap: int = Field(default=10_000, ge=1)
    tenant_queue_share: float = Field(default=0.5, gt=0, le=1)
    first_token_stall_seconds: float = Field(default=120, gt=0)
    token_stall_seconds: float = Field(default=30, gt=0)
    drain_grace_seconds: float = Field(default=30, ge=0)
    busy_reply_seconds: float = Field(default=10, gt=0)
    not_consuming_seconds: float = Field(default=10, gt=0)

    @model_validator(mode="after")
    def _times_fit_together(self) -> Self:
        least = self.longest_run_seconds + _LATE_ACK_MARGIN
        if self.visibility_timeout_seconds < least:
            msg = (
                f"jobs.visibility_timeout_seconds is {self.visibility_timeout_seconds:g}, but a run may take "
                f"jobs.longest_run_seconds = {self.longest_run_seconds:g}: Redis would hand a running job to a second "
                f"worker. Set it to at least {least:g}."
            )
            raise ValueError(msg)
        if self.renew_seconds * 2 > self.lease_seconds:
            msg = (
                f"jobs.lease_seconds is {self.lease_seconds:g}, but leases are renewed every jobs.renew_seconds = "
                f"{self.renew_seconds:g}: one late renewal would lose the job. Set the lease to at least "
                f"{self.renew_seconds * 2:g}."
            )
            raise ValueError(msg)
        if self.deadline_seconds > self.max_deadline_seconds:
            msg = "jobs.deadline_seconds is above jobs.max_deadline_seconds: lower the first or raise the second."
            raise ValueError(msg)
        return self


class HealthSettings(_Section):
    """`[health]`: how an instance proves that it makes progress, and how it is restarted."""

    probe_seconds: float = Field(default=10, gt=0)
    probe_timeout_seconds: float = Field(default=5, gt=0)
    failures: int = Field(default=2, ge=1)
    start_seconds: float = Field(default=600, gt=0)
    backoff_seconds: float = Field(default=1, gt=0)
    max_backoff_seconds: float = Field(default=60, gt=0)


class BreakerSettings(_Section):
    """`[breaker]`: when an instance is taken out because its runs fail, and how it comes back."""

    window_seconds: float = Field(default=30, ge=1, le=3600)
    minimum: int = Field(default=5, ge=1)
    error_rate: float = Field(default=0.5, gt=0, le=1)
    open_seconds: float = Field(default=5, gt=0)
    max_open_seconds: float = Field(default=60, gt=0)
    probes: int = Field(default=1, ge=1, le=64)


class WebhookSettings(_Section):
    """`[webhooks]`: where events may go and how stubbornly they are sent."""

    allow_hosts: tuple[str, ...] = Field(
        default=(), description="private hosts, plain http and other ports that may receive webhooks all the same"
    )
    attempt_timeout_seconds: float = Field(default=15, gt=0, le=30)
    first_retry_seconds: float = Field(default=5, gt=0)
    max_retry_seconds: float = Field(default=12 * 3600, gt=0)
    max_attempts: int = Field(default=19, ge=1, le=100, description="with the waits above: about three days")
    concurrency: int = Field(default=64, ge=1)
    per_host: int = Field(default=8, ge=1)


class FlowerSettings(_Section):
    """`[flower]`: the operators' window. Without a password it does not start."""

    host: str = "127.0.0.1"
    port: int = Field(default=5555, ge=1, le=65_535)
    user: str = "operator"
    password: SecretStr = SecretStr("")


class WorkerSettings(_Section):
    """`[worker]`: which instance this process owns; set by `posthouse worker MODEL --slot N`, not by hand.

    Without a model the process owns no instance (the webhook worker).
    """

    model: str = ""
    slot: int = Field(default=0, ge=0)
