"""Flower behind a gate of our own: `python -m workers.flower`.

Flower's handlers each look for the password themselves, and some, `/metrics` first of all, do not look. Here every
request but `/healthcheck` is judged before a handler is chosen, so nothing can be forgotten. No password: no
Flower. Its own settings stand in our configuration; `FLOWER_…` variables and flowerconfig.py are not read.
"""

from __future__ import annotations

import hmac
import signal
import sys
from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, NoReturn

from flower.app import Flower
from flower.command import setup_logging
from flower.options import options
from flower.urls import settings as tornado_settings
from tornado.log import enable_pretty_logging
from tornado.web import RequestHandler

from app import settings as configuration
from app.queueing import create_celery

if TYPE_CHECKING:
    from app.sections import FlowerSettings

_OPEN = frozenset({"/healthcheck"})
# Flower asks the workers a dozen things at once, each on a connection of its own; fewer and it blocks itself.
_CONNECTIONS = 32
_MOST_TASKS = 10_000  # of finished tasks that are kept in memory to look at


class GuardedFlower(Flower):  # type: ignore[misc]  # flower is untyped
    """Flower whose every page wants HTTP basic credentials."""

    def __init__(self, *, credentials: str, **kwargs: Any) -> None:
        self._credentials = credentials.encode()
        super().__init__(**kwargs)

    def find_handler(self, request: Any, **kwargs: Any) -> Any:
        if request.path in _OPEN or admits(self._credentials, request.headers.get("Authorization", "")):
            return super().find_handler(request, **kwargs)
        return self.get_handler_delegate(request, _Denied)


class _Denied(RequestHandler):
    """401, whatever the method and the path."""

    def check_xsrf_cookie(self) -> None:
        """There is no session whose cookie could be abused."""

    def prepare(self) -> None:
        self.set_status(401)
        self.set_header("WWW-Authenticate", 'Basic realm="posthouse"')
        self.finish("Access denied\n")


def admits(credentials: bytes, header: str) -> bool:
    """Whether an Authorization header carries these `user:password` credentials; compared in constant time."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        given = b64decode(encoded.strip(), validate=True)
    except (Base64Error, ValueError):
        return False
    return hmac.compare_digest(given, credentials)


def main() -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        SystemExit: status 1 with a sentence on stderr when there is no password.
    """
    found = configuration.load()
    credentials = f"{found.flower.user}:{found.flower.password.get_secret_value()}"
    if not found.flower.password.get_secret_value():
        sys.exit("flower.password is empty: set POSTHOUSE_FLOWER__PASSWORD; Flower never runs open")
    _set_options(found.flower, credentials)
    celery = create_celery(found)
    celery.conf.broker_pool_limit = _CONNECTIONS
    flower = GuardedFlower(credentials=credentials, capp=celery, options=options, **tornado_settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    flower.start_http_server()
    try:
        flower.start()
    finally:
        flower.stop()


def _set_options(told: FlowerSettings, credentials: str) -> None:
    options.address, options.port = told.host, told.port
    options.basic_auth = [credentials]
    options.max_tasks = _MOST_TASKS
    options.persistent = False
    enable_pretty_logging()
    setup_logging()


def _leave(*_: object) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    main()
