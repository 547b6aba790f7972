"""The paced engine: no model, words at a set pace, faults on request; for tests and load tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from model_pool.endpoint import Endpoint
from model_pool.engines.base import COMMON_FIELDS, number_option, refuse_unknown_options, sequences

if TYPE_CHECKING:
    from model_pool.spec import InstanceSpec

_OPTIONS = {"ttft_ms": "milliseconds to the first token", "tpot_ms": "milliseconds for every token after it"}
_DAY_MS = 86_400_000.0


class Paced:
    """Starts `model_pool.servers.paced`."""

    name = "paced"
    request_fields = COMMON_FIELDS | {
        "logprobs",
        "parallel_tool_calls",
        "reasoning_effort",
        "response_format",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
    continues_by_ids = True
    logs_stats = True

    def command(self, spec: InstanceSpec) -> list[str]:
        model = spec.model
        settings = {
            "--uds": spec.socket,
            "--model": model.name,
            # The word table is shared by all paced servers of a host, so that any of them continues another's answer.
            "--data": spec.run_dir / "paced",
            "--ttft-ms": self._pace(spec, "ttft_ms"),
            "--tpot-ms": self._pace(spec, "tpot_ms"),
            "--max-concurrency": sequences(model),
            "--context-length": model.context_length,
        }
        words = [str(part) for pair in settings.items() for part in pair]
        return [sys.executable, "-m", "model_pool.servers.paced", *words]

    def endpoint(self, spec: InstanceSpec) -> Endpoint:
        return Endpoint(spec.model.name, uds=spec.socket)

    def environment(self, spec: InstanceSpec) -> dict[str, str]:  # noqa: ARG002 -- a word has no device
        return {}

    def check(self, spec: InstanceSpec) -> None:
        refuse_unknown_options(spec.model, _OPTIONS)
        for key in _OPTIONS:
            self._pace(spec, key)

    @staticmethod
    def _pace(spec: InstanceSpec, key: str) -> float:
        return number_option(spec.model, key, 0.0, least=0.0, most=_DAY_MS)
