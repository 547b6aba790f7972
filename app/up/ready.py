"""Waits until a request would succeed: until the API's `/readyz` answers 200."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_SECONDS = 0.2
_TIMEOUT_SECONDS = 5.0
_REPORT_SECONDS = 10.0


async def until_ready(host: str, port: int, *, say: Callable[[str], None], check: Callable[[], None]) -> None:
    """Return once `/readyz` answers 200.

    Args:
        host: of the API.
        port: of the API.
        say: told every ten seconds what is still missing.
        check: called between attempts; whatever it raises ends the wait.
    """
    started = reported = time.monotonic()
    while True:
        ready, missing = await asyncio.to_thread(_ask, host, port)
        if ready:
            return
        check()
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            say(f"still starting ({reported - started:.0f} s): {missing}")
        await asyncio.sleep(_POLL_SECONDS)


def _ask(host: str, port: int) -> tuple[bool, str]:
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz", headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status == http.client.OK, _missing(response.read())
    except (OSError, http.client.HTTPException) as error:
        return False, f"the API does not answer ({error})"
    finally:
        connection.close()


def _missing(body: bytes) -> str:
    try:
        told = json.loads(body)
    except ValueError:
        return "the API gave no reason"
    missing = told.get("missing") if isinstance(told, dict) else None
    return ", ".join(map(str, missing)) if isinstance(missing, list) else json.dumps(told)
