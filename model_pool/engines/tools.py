"""Whether a model is set up for what a request asks of it, beyond the fields that its engine knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def lacks_parser(engine: str, options: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    """Whether vLLM would refuse: a model that may choose to call tools needs a parser for the form of its calls.

    A call that is forced is made under a grammar and needs none.
    """
    if engine != "vllm" or not params.get("tools") or params.get("tool_choice", "auto") != "auto":
        return False
    return not options.get("tool_call_parser") and "--tool-call-parser" not in options.get("extra_args", ())
