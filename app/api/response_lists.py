"""Lists under `/v1/responses`: a tenant's responses, and the input items of one."""

from __future__ import annotations

import re
from typing import Any

from flask import Blueprint, Response, request

from app.api.answers import answer
from app.api.authentication import caller_key, require_key
from app.api.parts import parts
from app.api.render_response import render_response
from app.errors import InvalidRequest
from app.jobs.job import Kind, Status

blueprint = Blueprint("response_lists", __name__, url_prefix="/v1/responses")
require_key(blueprint, browsers=True)

_METADATA = re.compile(r"metadata\[(.{1,64})\]", re.DOTALL)
_KNOWN = frozenset({"after", "limit", "status", "order"})
_MOST = 100


@blueprint.get("")
def jobs() -> Response:
    api = parts()
    _order("desc")
    found = api.listing.page(
        caller_key(), after=request.args.get("after"), limit=_limit(), status=_status(), metadata=_metadata()
    )
    data = [render_response(view, api.results.output(view)) for view in found.jobs]
    return answer(_listed(data, more=found.has_more))


@blueprint.get("/<job_id>/input_items")
def input_items(job_id: str) -> Response:
    order = _order("desc", "asc")
    view = parts().results.view(job_id, caller_key(), Kind.RESPONSE)
    items = view.input_items if order == "asc" else view.input_items[::-1]
    after = request.args.get("after")
    if after is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise InvalidRequest(f"after: {after[:80]!r} is not in the list", param="after")
        items = items[ids.index(after) + 1 :]
    limit = _limit()
    return answer(_listed(items[:limit], more=len(items) > limit))


def _listed(data: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    """A page in OpenAI's form."""
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": more}


def _order(*known: str) -> str:
    """The order asked for; the first one unless it is said."""
    text = request.args.get("order", known[0])
    if text not in known:
        raise InvalidRequest(f"order: must be {' or '.join(known)}", param="order")
    return text


def _limit() -> int:
    text = request.args.get("limit", "20")
    if not re.fullmatch(r"\d{1,3}", text, re.ASCII) or not 1 <= int(text) <= _MOST:
        raise InvalidRequest(f"limit: must be a whole number from 1 to {_MOST}", param="limit")
    return int(text)


def _status() -> Status | None:
    text = request.args.get("status")
    if text is None:
        return None
    if text not in set(Status):
        raise InvalidRequest(f"status: must be one of {', '.join(Status)}", param="status")
    return Status(text)


def _metadata() -> dict[str, str]:
    wanted = {}
    for name, value in request.args.items():
        found = _METADATA.fullmatch(name)
        if found:
            wanted[found[1]] = value
        elif name not in _KNOWN:
            raise InvalidRequest(
                f"{name[:64]}: no such filter; use status, metadata[key], after, limit", param=name[:64]
            )
    return wanted
