"""Counters: one for models with a tokenizer, one for the paced engine, whose tokens are words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer

from app.tokens.folder import ModelFiles, read_folder
from app.tokens.template import ChatTemplate
from model_pool.servers.paced.counting import count as count_words

Message = Mapping[str, Any]


class Counter(Protocol):
    """Counts the tokens of a prompt, exactly as the engine will."""

    def count(self, messages: Sequence[Message], params: Mapping[str, Any]) -> int:
        """Tokens of the conversation with everything that the template puts around it.

        Raises:
            TemplateRefusal: the template says that it takes no such conversation.
            TemplateUnusable: it failed.
        """
        ...


class ModelCounter:
    """A model's own tokenizer and chat template.

    Args:
        files: see `read_folder`.
    """

    def __init__(self, files: ModelFiles) -> None:
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(files.tokenizer))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._template = ChatTemplate(files.template, files.special_tokens)
        same = files.tool_template == files.template
        self._with_tools = self._template if same else ChatTemplate(files.tool_template, files.special_tokens)

    @classmethod
    def from_folder(cls, folder: Path) -> ModelCounter:
        """Raises `FolderUnusable`, `TemplateUnusable`."""
        return cls(read_folder(folder))

    def count(self, messages: Sequence[Message], params: Mapping[str, Any]) -> int:
        tools = params.get("tools")
        template = self._with_tools if tools else self._template
        text = template.render([_parsed(message) for message in messages], tools, **_reasoning(params))
        return self._encoded(text)

    def _encoded(self, text: str) -> int:
        """Special tokens are the template's. Only batches release the interpreter's lock (tokenizers 0.23)."""
        return len(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])


class PacedCounter:
    """The paced engine's own: words, and a token for each end and role."""

    def count(self, messages: Sequence[Message], params: Mapping[str, Any]) -> int:  # noqa: ARG002 -- it shows no tools
        return count_words(messages)


def _reasoning(params: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM tells templates of the wanted effort (0.32, `ChatCompletionRequest.build_chat_params`)."""
    effort = params.get("reasoning_effort")
    return {} if effort is None else {"reasoning_effort": effort, "enable_thinking": effort != "none"}


def _parsed(message: Message) -> Message:
    """Arguments of tool calls as objects, as engines hand them to templates."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{**c, "function": _parsed_function(c["function"])} for c in calls]}


def _parsed_function(function: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {**function, "arguments": json.loads(function["arguments"] or "{}")}
    except ValueError:
        return dict(function)
