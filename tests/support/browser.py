"""A real browser for tests: headless Chromium on a page that a server of another origin gives it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.support.waiting import wait_until

PAGES = Path(__file__).parent / "pages"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Pages(ThreadingHTTPServer):
    """Serves the pages beside this file at `origin`, and keeps what they report by `POST /report`."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.reports: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", urlsplit(origin).port or 80), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def visit(self, page: str, *, limit: float = 90, **fragment: str) -> dict[str, Any]:
        """Open a page in a fresh browser; what the page reports. `fragment` is what it finds behind the #."""
        assert CHROMIUM is not None
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = subprocess.Popen(
                [
                    CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
                    f"--user-data-dir={profile}", f"{self.origin}/{page}#{urlencode(fragment)}",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                return wait_until(lambda: self.reports and self.reports.pop(), what="the page reports", limit=limit)
            finally:
                browser.terminate()
                browser.wait(20)

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        file = PAGES / urlsplit(self.path).path.lstrip("/")
        found = file.is_file()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        if found:
            self.wfile.write(file.read_bytes())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.reports.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
