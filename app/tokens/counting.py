"""Prompt tokens of any model that is offered, without holding up anybody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import structlog

from app.errors import InvalidRequest
from app.sections import ModelSettings
from app.tokens.folder import FolderUnusable, folder_of
from app.tokens.template import TemplateRefusal, TemplateUnusable
from app.tokens.threads import Threads
from app.tokens.tokenizer import Counter, Message, ModelCounter, PacedCounter

# A tokenizer takes about a microsecond for a character: this much is counted sooner than a thread is woken.
_SHORT_CHARS = 2000
_AGAIN_SECONDS = 30.0
_LONGEST_LOAD_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class PromptTokens(Protocol):
    """Says how many tokens a prompt has."""

    def __call__(
        self, model: str, settings: ModelSettings, messages: Sequence[Message], params: Mapping[str, Any]
    ) -> int | None:
        """The number, or None where this host cannot count for the model: the worker does it then.

        Raises:
            InvalidRequest: the model's chat template refuses such a conversation.
            QueueUnavailable: too many long prompts wait to be counted.
        """
        ...


class TokenCounts:
    """Loads each model's tokenizer at its first use; where that fails it is tried again after half a minute.

    A model that was changed since has other settings (by identity, see `app.services.catalogue`), and is loaded anew.

    Args:
        load: makes a model's counter (see `counter_for`).
        monotonic: seconds.
    """

    def __init__(
        self,
        threads: Threads,
        load: Callable[[ModelSettings], Counter] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threads = threads
        self._load = load or counter_for
        self._monotonic = monotonic
        self._counters: dict[str, tuple[ModelSettings, Counter]] = {}
        self._not_before: dict[str, tuple[ModelSettings, float]] = {}
        self._loading = threading.Lock()

    def __call__(
        self, model: str, settings: ModelSettings, messages: Sequence[Message], params: Mapping[str, Any]
    ) -> int | None:
        counter = self._known(model, settings) or self._loaded(model, settings)
        if counter is None:
            return None
        try:
            if _chars(messages) + (_SHORT_CHARS if params.get("tools") else 0) <= _SHORT_CHARS:
                return counter.count(messages, params)
            return self._threads.run(lambda: counter.count(messages, params))
        except TemplateRefusal as error:
            raise InvalidRequest(f"the chat template of model {model!r} refuses these messages: {error}") from None
        except TemplateUnusable as error:
            _log.warning("chat_template_failed", model=model, why=str(error))
            return None

    def _known(self, model: str, settings: ModelSettings) -> Counter | None:
        known = self._counters.get(model)
        return known[1] if known is not None and known[0] is settings else None

    def _loaded(self, model: str, settings: ModelSettings) -> Counter | None:
        """One caller loads, the others wait: an estimate in the meantime would make the same request another one."""
        if not self._loading.acquire(timeout=_LONGEST_LOAD_SECONDS):
            _log.warning("tokenizer_loads_long", model=model)
            return None
        try:
            return self._known(model, settings) or self._load_now(model, settings)
        finally:
            self._loading.release()

    def _load_now(self, model: str, settings: ModelSettings) -> Counter | None:
        now = self._monotonic()
        failed, not_before = self._not_before.get(model, (settings, now))
        if failed is settings and now < not_before:
            return None
        try:
            counter = self._threads.run(lambda: self._load(settings))
        except (FolderUnusable, TemplateUnusable) as error:
            self._not_before[model] = (settings, now + _AGAIN_SECONDS)
            _log.info("no_tokenizer_here", model=model, why=str(error))
            return None
        self._counters[model] = (settings, counter)
        return counter


def counter_for(settings: ModelSettings) -> Counter:
    """The counter of a model.

    Raises:
        FolderUnusable, TemplateUnusable: this host cannot count for it.
    """
    if settings.engine == "paced":
        return PacedCounter()
    if not settings.path:
        raise FolderUnusable("the model has no path")
    folder: Path = folder_of(settings.path, settings.revision)
    try:
        return ModelCounter.from_folder(folder)
    except (FolderUnusable, TemplateUnusable):
        raise
    except Exception as error:  # noqa: BLE001 -- tokenizers raises plain Exception for a file that it cannot read
        raise FolderUnusable(f"tokenizer.json: {type(error).__name__}") from None


def unknown(
    model: str,  # noqa: ARG001 -- the signature is `PromptTokens`
    settings: ModelSettings,  # noqa: ARG001
    messages: Sequence[Message],  # noqa: ARG001
    params: Mapping[str, Any],  # noqa: ARG001
) -> int | None:
    """For hosts that count nothing."""
    return None


def _chars(messages: Sequence[Message]) -> int:
    return sum(len(message.get("content") or "") for message in messages)
