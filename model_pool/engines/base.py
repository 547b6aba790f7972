"""What Posthouse asks of an engine: how to start its server, and what that server can do and may be asked.

An engine is a small object without state; everything that varies stands in the `InstanceSpec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from model_pool.spec import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from model_pool.endpoint import Endpoint
    from model_pool.spec import InstanceSpec, ModelSpec

# What a client's request may say to every engine. An engine's file adds what only it understands.
COMMON_FIELDS = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
    }
)

# Never taken from a client: scheduling, isolation and prompt building belong to the worker that runs the request.
WORKER_FIELDS = frozenset(
    {
        "priority",
        "request_id",
        "cache_salt",
        "kv_transfer_params",
        "chat_template",
        "chat_template_kwargs",
        "documents",
        "add_generation_prompt",
        "continue_final_message",
        "add_special_tokens",
        "ignore_eos",
        "prompt",
        "prompt_logprobs",
        "prompt_embeds",
        "return_token_ids",
        "include_stop_str_in_output",
        "use_beam_search",
        "vllm_xargs",
    }
)


class EngineConfigError(SpecError):
    """An engine cannot run this model as configured; the message names the file or option at fault and the cure."""


class Engine(Protocol):
    """One way to serve a model over the OpenAI protocol."""

    @property
    def name(self) -> str:
        """What the configuration calls it."""

    @property
    def request_fields(self) -> frozenset[str]:
        """The written allow-list of fields that a client's request may carry to this engine."""

    @property
    def continues_by_ids(self) -> bool:
        """Whether `/v1/completions` takes prompt and emitted token ids and goes on after them."""

    @property
    def logs_stats(self) -> bool:
        """Whether the server counts its generations (started, finished, aborted) and tells the counts."""

    def command(self, spec: InstanceSpec) -> list[str] | None:
        """The command line that serves `spec` at its endpoint, with one sequence to spare for the health probe.

        None where nothing is to be started, because somebody else runs the server.

        Raises:
            OSError: it cannot be started now, perhaps later.
        """

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        """Where the server is asked, the same over all of its restarts."""

    def environment(self, spec: InstanceSpec) -> dict[str, str]:
        """What the command's environment has beyond the worker's own: the device above all."""

    def check(self, spec: InstanceSpec) -> None:
        """Look for everything that would let the start fail, before it costs a minute.

        Raises:
            EngineConfigError: naming the missing file or the unusable option.
        """


def sequences(model: ModelSpec) -> int:
    """Sequences that a server is started with: the model's concurrency, and one for the probe of a busy instance."""
    return model.max_concurrency + 1


def refuse_unknown_options(model: ModelSpec, known: Mapping[str, str]) -> None:
    """Check that every option of `model` stands in `known` (option to what it means).

    Raises:
        EngineConfigError: naming the option and listing those that exist.
    """
    for key in model.options:
        if key not in known:
            listed = ", ".join(f"{name} ({meaning})" for name, meaning in known.items())
            msg = f"models.{model.name}.options.{key}: engine {model.engine} has no such option; it has {listed}"
            raise EngineConfigError(msg)


def number_option(model: ModelSpec, key: str, default: float, *, least: float, most: float = float("inf")) -> float:
    """The option `key` as a number within its bounds, `default` where it is not set.

    Raises:
        EngineConfigError: it is no number or out of bounds.
    """
    value: Any = model.options.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        msg = f"models.{model.name}.options.{key} is {value!r}; it must be a number from {least:g} to {most:g}"
        raise EngineConfigError(msg)
    return value
