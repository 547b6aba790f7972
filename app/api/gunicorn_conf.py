"""Gunicorn's configuration, read by gunicorn itself (`--config python:app.api.gunicorn_conf`).

The names are gunicorn's settings. Nothing is preloaded: the gevent worker patches the standard library in each worker
process, and Redis connections must be made after that.
"""

from __future__ import annotations

import math
from typing import Any

from app import garbage, settings

_found = settings.load()

bind = f"[{_found.api.host}]:{_found.api.port}" if ":" in _found.api.host else f"{_found.api.host}:{_found.api.port}"
workers = _found.api.processes
worker_class = "app.api.gevent_worker.DrainingWorker"
worker_connections = _found.api.connections
backlog = min(2048, _found.api.connections)

# How long an idle connection is kept, and also how long a client may take to send its request line and headers.
keepalive = math.ceil(_found.api.keep_alive_seconds)
graceful_timeout = math.ceil(_found.api.graceful_seconds)
# A gevent hub that does not turn for this long is stuck: the master replaces the worker.
timeout = 60

# What is said about a proxy before us is not believed: neither the scheme, nor SCRIPT_NAME, which would move paths.
forwarded_allow_ips = ""
forwarder_headers = ""

limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190

# Query strings may hold short-lived tokens: requests are logged by the application, without them.
accesslog = None
errorlog = "-"
loglevel = "warning" if _found.log_level == "info" else _found.log_level

# A control socket would be one more door, and one file for all stacks of a user.
control_socket_disable = True
# The heartbeat file in memory: on a busy disk its update can block the hub.
worker_tmp_dir = "/dev/shm"  # noqa: S108 -- gunicorn makes a private file there
proc_name = "posthouse-api"


def post_worker_init(worker: Any) -> None:  # noqa: ARG001 -- the signature is gunicorn's
    """The application is loaded."""
    garbage.settle()
