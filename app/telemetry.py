"""Logs: structlog, one line an event, as text for people or JSON for machines, without prompts, answers or keys.

Whatever is bound with `structlog.contextvars` (request id, job id, task id) stands on every line of that request.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from app.settings import Settings

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure_logs(settings: Settings) -> None:
    """Send structlog's and the standard library's lines to stderr in the configured form."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    level = _LEVELS[settings.log_level]
    structlog.configure(
        processors=[*shared, *_finish(settings.log_format)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_foreign(settings.log_format))
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)


def _finish(form: str) -> list[Any]:
    if form == "json":
        return [structlog.processors.format_exc_info, _json()]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_plain_traceback)]


def _foreign(form: str) -> list[Any]:
    return [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_finish(form)]


def _json() -> Any:
    return structlog.processors.JSONRenderer(ensure_ascii=False)


# Rich tracebacks show local variables, and local variables hold prompts.
_plain_traceback = structlog.dev.plain_traceback
