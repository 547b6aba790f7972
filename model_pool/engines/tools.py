"""Whether a model is set up for what a request asks of it, beyond the fields that its engine knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def lacks_parser(engine: str, options: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    """Whether vLLM 0.32 would refuse: tools, forced ones too, need a parser for the form of the calls."""
    if engine != "vllm" or not params.get("tools") or params.get("tool_choice") == "none":
        return False
    return not options.get("tool_call_parser") and "--tool-call-parser" not in options.get("extra_args", ())
