"""How tests talk to a running API: the real SDK for what it can do, plain HTTP for what it hides."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai

from tests.support.waiting import wait_until

KEY = "ph_test_key"


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Door:
    """An API at `url` (scheme, host and port)."""

    url: str = field(default="", init=False)

    def client(self, key: str = KEY, **options: Any) -> openai.OpenAI:
        """The real SDK; without its own retries unless asked for."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, **{"max_retries": 0, "timeout": 60, **options})

    @contextmanager
    def open(
        self, method: str, path: str, body: Any = None, *, key: str | None = KEY, timeout: float = 30, **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        """A request whose answer the caller reads; leaving the block hangs up."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)
        try:
            connection.request(method, path, _encoded(body), _headers(key, body, headers))
            yield connection.getresponse()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = KEY, **more: Any) -> Answer:
        """A request and its whole answer. A `body` that is not bytes is sent as JSON."""
        with self.open(method, path, body, key=key, **more) as response:
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read())

    def get(self, path: str, key: str | None = KEY, **headers: str) -> tuple[int, Any]:
        """A plain GET; status and parsed JSON."""
        answer = self.ask("GET", path, key=key, **headers)
        return answer.status, answer.json

    def submit(self, text: str, *, model: str = "paced", key: str = KEY, **fields: Any) -> dict[str, Any]:
        """A background response by plain HTTP; its object."""
        answer = self.ask(
            "POST", "/v1/responses", {"model": model, "input": text, "background": True, **fields}, key=key
        )
        assert answer.status == 200, answer.body
        return dict(answer.json)

    def job(self, job_id: str, key: str = KEY) -> dict[str, Any]:
        """A response as it is now."""
        status, body = self.get(f"/v1/responses/{job_id}", key)
        assert status == 200, body
        return dict(body)

    def ended(self, job_id: str, *, limit: float = 30, key: str = KEY) -> dict[str, Any]:
        """A response once it has reached a terminal state."""

        def look() -> dict[str, Any] | None:
            body = self.job(job_id, key)
            return body if body["status"] not in {"queued", "in_progress"} else None

        return dict(wait_until(look, what=f"{job_id} ends", limit=limit, every=0.05))

    def reaches(self, job_id: str, status: str, *, limit: float = 15) -> None:
        wait_until(lambda: self.job(job_id)["status"] == status, what=f"{job_id} is {status}", limit=limit)

    def pool(self, model: str = "paced") -> list[dict[str, Any]]:
        """The instances of a model as operators see them."""
        status, body = self.get("/admin/pool")
        assert status == 200, body
        return list(body["models"][model]["instances"])

    def generations(self, model: str = "paced") -> dict[str, int]:
        """Generations started, finished, aborted, as the pool shows them, over all instances of a model."""
        found = [instance["generations"] for instance in self.pool(model)]
        return {name: sum(counts[name] for counts in found) for name in ("started", "finished", "aborted")}

    def text_of(self, job: Mapping[str, Any]) -> str:
        """The text of a response object."""
        parts = [part for item in job["output"] if item["type"] == "message" for part in item["content"]]
        return "".join(part["text"] for part in parts if part["type"] == "output_text")


def _encoded(body: Any) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


def _headers(key: str | None, body: Any, more: Mapping[str, str]) -> dict[str, str]:
    found = {} if key is None else {"Authorization": f"Bearer {key}"}
    if body is not None:
        found["Content-Type"] = "application/json"
    return found | {name.replace("_", "-"): value for name, value in more.items()}
