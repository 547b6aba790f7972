"""The bare app that Posthouse's API is measured against: Flask, one Redis GET a request, nothing else."""

from __future__ import annotations

import os

import redis
from flask import Flask, Response, request


def application() -> Flask:
    """What gunicorn serves; `BENCH_REDIS` names the server."""
    app = Flask("bare")
    client = redis.Redis.from_url(os.environ["BENCH_REDIS"], protocol=2)

    @app.post("/v1/chat/completions")
    def answer() -> Response:
        body = request.get_json()
        found = client.get("answer") or b"{}"
        return Response(found, mimetype="application/json", headers={"x-model": body["model"]})

    return app
