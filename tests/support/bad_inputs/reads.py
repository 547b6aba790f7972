"""What is asked of jobs, lists and operators' pages."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from tests.support.bad_inputs.request import CHAT, NOBODY, RESPONSES, TOKENS, Bad

_WRONG_METHODS = (
    ("PUT", CHAT), ("PATCH", RESPONSES), ("DELETE", RESPONSES), ("GET", TOKENS), ("POST", "/healthz"),
    ("POST", "/v1/models"), ("DELETE", "/admin/pool"), ("PUT", f"{RESPONSES}/{NOBODY}"),
)  # fmt: skip


def reads() -> Iterator[Bad]:
    yield from jobs()
    yield from queries()
    yield from lists()
    yield from routes()


def jobs() -> Iterator[Bad]:
    for name in (NOBODY, "resp_", "x", f"resp_{'G' * 32}", f"{NOBODY}0", "%00", "%ff", "a" * 2000, f"{NOBODY}%0a"):
        for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
            path = f"{RESPONSES}/{name}{rest}"
            yield Bad(name[:40], method, path, None, None, 404, "job_not_found")
        yield Bad(name[:40], "GET", f"{CHAT}/{name}", None, None, 404, "job_not_found")
    for name in ("nobody", "%00", "paced%0a", "a" * 2000):
        yield Bad(name[:40], "GET", f"/v1/models/{name}", None, "model", 404, "model_not_found")


def queries() -> Iterator[Bad]:
    """Of one job; they are looked at before it is, so that nobody has to be there."""
    for name, values in {
        "wait": ("0", "61", "-1", "x", "1.5", "", "٣"),
        "starting_after": ("-1", "x", "1.5", "", "9" * 20),
        "stream": ("yes", "True", "2", ""),
    }.items():
        for value in values:
            path = f"{RESPONSES}/{NOBODY}?{name}={quote(value)}"
            yield Bad(f"{name}={value}", "GET", path, None, name)


def lists() -> Iterator[Bad]:
    for value in ("0", "-1", "101", "x", "1.5", "", "1e1", "٣", "9" * 400):
        yield Bad(f"limit={value[:9]}", "GET", f"{RESPONSES}?limit={quote(value)}", None, "limit")
    for value in ("done", "", "COMPLETED", "completed,failed"):
        yield Bad(f"status={value}", "GET", f"{RESPONSES}?status={value}", None, "status")
    for value in (NOBODY, "x", "%00"):
        yield Bad(f"after={value}", "GET", f"{RESPONSES}?after={value}", None, "after")
    for value in ("asc", "newest", ""):
        yield Bad(f"order={value}", "GET", f"{RESPONSES}?order={value}", None, "order")
    for value in ("newest", ""):
        yield Bad(f"items order={value}", "GET", f"{RESPONSES}/{NOBODY}/input_items?order={value}", None, "order")
    for name in ("offset", "metadata", "metadata[]", "model"):
        yield Bad(f"filter {name}", "GET", f"{RESPONSES}?{name}=x", None, name)
    for value in ("0", "1001", "x", "-1"):
        yield Bad(f"limit={value}", "GET", f"/admin/jobs?status=dead&limit={value}", None, "limit")
    yield Bad("no status", "GET", "/admin/jobs", None, "status")
    yield Bad("another status", "GET", "/admin/jobs?status=queued", None, "status")
    yield Bad("retry of nobody", "POST", f"/admin/jobs/{NOBODY}/retry", None, None, 404, "job_not_found")
    yield Bad("a breaker of nobody", "POST", "/admin/breakers/nobody.0/reset", None, None, 404, "not_found")


def routes() -> Iterator[Bad]:
    for path in ("/v1", "/v1/nowhere", "/", "/admin", f"{RESPONSES}//", f"{RESPONSES}/{NOBODY}/nowhere"):
        yield Bad(path, "GET", path, None, None, 404, "not_found")
    for method, path in _WRONG_METHODS:
        yield Bad(f"{method} there", method, path, None, None, 405, "method_not_allowed")
