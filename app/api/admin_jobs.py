"""`/admin/jobs`: dead letters, and another chance for one."""

from __future__ import annotations

import re

from flask import Blueprint, Response, request

from app.api.answers import answer
from app.api.authentication import require_admin
from app.api.parts import parts
from app.errors import InvalidRequest

blueprint = Blueprint("admin_jobs", __name__, url_prefix="/admin/jobs")
require_admin(blueprint)

_MOST = 1000


@blueprint.get("")
def dead() -> Response:
    if request.args.get("status") != "dead":
        raise InvalidRequest(
            "status: only dead is listed here; a tenant lists its own jobs by GET /v1/responses", param="status"
        )
    letters = parts().dead_letters.latest(_limit())
    return answer({"object": "list", "data": [letter.to_dict() for letter in letters]})


@blueprint.post("/<job_id>/retry")
def retry(job_id: str) -> Response:
    parts().dead_letters.retry(job_id)
    return answer({"id": job_id, "status": "queued"})


def _limit() -> int:
    asked = request.args.get("limit", "100")
    if not re.fullmatch(r"\d{1,4}", asked, re.ASCII) or not 1 <= int(asked) <= _MOST:
        raise InvalidRequest(f"limit: must be a whole number from 1 to {_MOST}", param="limit")
    return int(asked)
