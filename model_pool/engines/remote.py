"""A server that somebody else runs: nothing is started, only asked, watched and taken out while it does not answer.

Any server that speaks the OpenAI protocol: vLLM, SGLang or FastChat on another host, another Posthouse, a hosted API
as a last resort. A probe asks for one token whenever none came for a while, which a hosted API may charge for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from model_pool.bodies import PLAIN, Dialect
from model_pool.endpoint import Endpoint
from model_pool.engines.base import COMMON_FIELDS, EngineConfigError, refuse_unknown_options

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec, ModelSpec

_OPTIONS = {
    "url": "where the server is, such as https://llm.example.org/v1; required",
    "api_key": "sent as a bearer token; better given by environment than written into a file",
    "model": "the model's name over there, if it has another one",
    "dialect": "vllm: it understands vLLM's additions, and answers continue; plain (default): it does not",
}
_DIALECTS = {"vllm": Dialect(), "plain": PLAIN}
_URL = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")


class Remote:
    """Asks the server at `url`."""

    name = "remote"
    request_fields = COMMON_FIELDS | {
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "logprobs",
        "top_logprobs",
        "logit_bias",
    }
    # With the dialect `vllm` it does; a property of the engine has to hold for all of its models.
    continues_by_ids = False
    logs_stats = False

    def command(self, spec: InstanceSpec) -> None:  # noqa: ARG002 -- nothing is started, whatever is served
        return None

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        options = spec.model.options
        key = options.get("api_key")
        return Endpoint(
            options.get("model") or spec.model.name,
            base_url=str(options["url"]).rstrip("/").removesuffix("/v1"),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            dialect=_DIALECTS[options.get("dialect", "plain")],
        )

    def environment(self, spec: InstanceSpec) -> dict[str, str]:  # noqa: ARG002 -- there is no process
        return {}

    def check(self, spec: InstanceSpec) -> None:
        model = spec.model
        refuse_unknown_options(model, _OPTIONS)
        _require(model, "url", bool(_URL.fullmatch(str(model.options.get("url", "")))), "an http or https URL")
        _require(model, "dialect", model.options.get("dialect", "plain") in _DIALECTS, "vllm or plain")
        for key in ("api_key", "model"):
            value = model.options.get(key, "x")
            _require(model, key, isinstance(value, str) and value.isprintable(), "a line of text")


def _require(model: ModelSpec, key: str, holds: bool, what: str) -> None:
    if not holds:  # the value is not quoted: it may be a key, or a URL with one
        msg = f"models.{model.name}.options.{key} must be {what}; engine remote has the option for: {_OPTIONS[key]}"
        raise EngineConfigError(msg)
