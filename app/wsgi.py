"""What gunicorn serves: `app.wsgi:application()`, called once in each worker process."""

from __future__ import annotations

import signal
from types import FrameType

from flask import Flask

from app import bootstrap, settings, telemetry
from app.api.application import create_app
from app.api.closing import Closing
from app.services.following_models import ModelWatch


def application() -> Flask:
    """Read the configuration, wire everything, follow the models, and notice when this process is asked to stop."""
    found = settings.load()
    telemetry.configure_logs(found)
    parts = bootstrap.api_parts(found)
    ModelWatch(parts.catalogue, stamp=settings.file_stamp, load=lambda: settings.load().models).start()
    _begin_closing_on_sigterm(parts.closing)
    return create_app(parts)


def _begin_closing_on_sigterm(closing: Closing) -> None:
    """Notice SIGTERM, then let the server's own handler do its work."""
    before = signal.getsignal(signal.SIGTERM)

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        closing.begin()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGTERM, on_sigterm)
