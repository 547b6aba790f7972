"""One question asked in three ways through the official OpenAI SDK, each with its times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from openai import DefaultHttpxClient, OpenAI

from app.demo import DemoFailedError

if TYPE_CHECKING:
    from app.demo.receiver import Receiver
    from app.demo.stage import Stage

_LIMITS: dict[str, Any] = {"max_output_tokens": 80, "temperature": 0}
# The three are the same question; each shall be computed, none answered from memory.
_FRESH = {"Cache-Control": "no-store"}
_POLL_SECONDS = 0.1
_WAIT_SECONDS = 120.0


class Asker:
    """Asks the stack at `url` with `key`."""

    def __init__(self, url: str, key: str, question: str, stage: Stage) -> None:
        # No proxy from the environment: the stack is on this machine.
        self._client = OpenAI(base_url=f"{url}/v1", api_key=key, http_client=DefaultHttpxClient(trust_env=False))
        self._question = question
        self._stage = stage
        self.model = self._client.models.list().data[0].id

    def poll(self) -> None:
        """In the background: accepted at once, then asked for until it is there."""
        started = time.monotonic()
        response = self._create(background=True)
        self._stage.say(f"  accepted as {response.id} after {_ms(started)}, status {response.status}")
        response = self._wait(response, started)
        self._stage.say(f"  {response.output_text.strip()}", style="bold")
        self._stage.say(f"  {response.usage.output_tokens} tokens in {_ms(started)}", style="green")

    def stream(self) -> None:
        """As a stream: each word as the model finds it."""
        started, first, pieces = time.monotonic(), "", 0
        self._stage.part("  ")
        for event in self._create(stream=True):
            if event.type == "response.output_text.delta":
                first = first or _ms(started)
                pieces += 1
                self._stage.part(event.delta)
            elif event.type in {"response.failed", "error"}:
                raise DemoFailedError(f"the stream ended with {event}")
        if not pieces:
            raise DemoFailedError("the stream brought no text")
        self._stage.say("")
        self._stage.say(f"  first text after {first}, the whole answer in {_ms(started)}", style="green")

    def webhook(self, receiver: Receiver) -> None:
        """By webhook: nobody waits; a signed event comes when the answer is there."""
        told: Any = self._client.get("/webhook_secret", cast_to=object)
        started = time.monotonic()
        accepted = self._create(background=True, extra_body={"webhook": {"url": receiver.url}})
        self._stage.say(f"  accepted as {accepted.id} after {_ms(started)}")
        delivery = receiver.next(_WAIT_SECONDS)
        if delivery is None:
            raise DemoFailedError(f"no webhook came within {_WAIT_SECONDS:g} s")
        arrived = _ms(started)
        event: Any = self._client.webhooks.unwrap(delivery.body, delivery.headers, secret=told["secret"])
        if event.data.id != accepted.id:
            raise DemoFailedError(f"the webhook names {event.data.id}, not {accepted.id}")
        self._stage.say(f"  {event.type} for {event.data.id}, signature verified")
        answer = self._client.responses.retrieve(accepted.id).output_text.strip()
        self._stage.say(f"  {answer}", style="bold")
        self._stage.say(f"  delivered after {arrived}", style="green")

    def _create(self, **how: Any) -> Any:
        return self._client.responses.create(
            model=self.model, input=self._question, extra_headers=_FRESH, **_LIMITS, **how
        )

    def _wait(self, response: Any, started: float) -> Any:
        seen = response.status
        while response.status in {"queued", "in_progress"}:
            if time.monotonic() - started > _WAIT_SECONDS:
                raise DemoFailedError(f"{response.id} is still {response.status} after {_WAIT_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)
            response = self._client.responses.retrieve(response.id)
            if response.status != seen:
                seen = response.status
                self._stage.say(f"  {seen} after {_ms(started)}")
        if response.status not in {"completed", "incomplete"}:
            raise DemoFailedError(f"{response.id} ended {response.status}: {response.error}")
        return response


def _ms(since: float) -> str:
    return f"{(time.monotonic() - since) * 1000:.0f} ms"
