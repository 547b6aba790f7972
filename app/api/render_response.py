"""A job as a Responses object, as the official SDK reads it."""

from __future__ import annotations

from typing import Any

from app.api.render_items import output_item
from app.jobs.job import JobView, Status
from app.jobs.output import MESSAGE, NOTHING, Item, Output

_CONTENT_STATUS = {Status.COMPLETED: "completed", Status.IN_PROGRESS: "in_progress"}
# The engine's reasons for stopping early, in the wire's words.
_REASONS = {"length": "max_output_tokens"}


def render_response(view: JobView, output: Output = NOTHING) -> dict[str, Any]:
    """The Responses object.

    Args:
        view: the job as it is.
        output: its answer as far as it is known; what failed or was cancelled half way keeps what it had.
    """
    return {
        "id": view.id,
        "object": "response",
        "created_at": view.created_at // 1000,
        "completed_at": view.ended_at // 1000 if view.ended_at is not None else None,
        "status": view.status.value,
        "background": view.background,
        "model": view.model,
        "output": _items(view, output),
        "error": _error(view),
        "incomplete_details": _incomplete(view),
        "usage": _usage(view),
        "metadata": view.metadata,
        "service_tier": view.tier,
        "previous_response_id": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "store": view.store,
        **view.echo,
        **_additions(view),
    }


def _items(view: JobView, output: Output) -> list[dict[str, Any]]:
    """Only the last item can have been cut; what completed without an answer has an empty one."""
    items = output.items or ((Item(MESSAGE),) if view.status is Status.COMPLETED else ())
    last = _CONTENT_STATUS.get(view.status, "incomplete")
    cut = len(items) - 1
    return [output_item(view.id, item, n, last if n == cut else "completed") for n, item in enumerate(items)]


def _error(view: JobView) -> dict[str, Any] | None:
    if view.status is not Status.FAILED:
        return None
    if view.failure is None:
        return {"code": "server_error", "message": "the job's record is no longer complete"}
    return {"code": view.failure.code, "message": view.failure.message}


def _incomplete(view: JobView) -> dict[str, Any] | None:
    if view.status is Status.INCOMPLETE:
        reason = (view.result or {}).get("finish_reason", "length")
        return {"reason": _REASONS.get(reason, reason)}
    if view.status is Status.CANCELLED and view.failure is not None:
        return {"reason": view.failure.code}
    return None


def _usage(view: JobView) -> dict[str, Any] | None:
    used = (view.result or {}).get("usage")
    if not used:
        return None
    return {
        "input_tokens": used["input_tokens"],
        "input_tokens_details": {"cached_tokens": used["cached_tokens"], "cache_write_tokens": 0},
        "output_tokens": used["output_tokens"],
        "output_tokens_details": {"reasoning_tokens": used["reasoning_tokens"]},
        "total_tokens": used["input_tokens"] + used["output_tokens"],
    }


def _additions(view: JobView) -> dict[str, Any]:
    """What the original does not have."""
    added: dict[str, Any] = {"cache": view.cache, "attempts": view.attempts, "degraded": view.degraded}
    if view.status is Status.QUEUED and view.position is not None:
        added["queue"] = {"position": view.position, "eta_seconds": view.eta_seconds}
    return added
