"""Conversations: what was said up to an earlier response, for a request that goes on from it."""

from __future__ import annotations

from typing import Any

from app.errors import InvalidRequest, JobNotFound
from app.jobs.job import JobView, Kind, Status
from app.jobs.output import as_message
from app.jobs.store import JobStore
from app.services.keys import ApiKey
from app.services.results import Results

PARAM = "previous_response_id"
_ANSWERED = frozenset({Status.COMPLETED, Status.INCOMPLETE})


class Conversation:
    """Reads earlier responses of the same caller. An earlier response's `instructions` are not carried over."""

    def __init__(self, store: JobStore, results: Results) -> None:
        self._store = store
        self._results = results

    def until(self, previous: str, key: ApiKey) -> list[dict[str, Any]]:
        """All messages up to and with the answer of `previous`.

        Raises:
            JobNotFound: it is unknown, another's, or no longer kept.
            InvalidRequest: it has no answer (yet).
        """
        view = self._view(previous, key)
        if view.status not in _ANSWERED:
            raise InvalidRequest(
                f"{PARAM}: response {view.id} is {view.status.value} and has no answer to go on from", param=PARAM
            )
        request = self._store.request(view.generation)
        if request is None:
            raise JobNotFound(f"response {view.id} is no longer kept", param=PARAM)
        asked = request.messages[1:] if view.echo.get("instructions") else request.messages
        return [*asked, as_message(self._results.output(view))]

    def _view(self, previous: str, key: ApiKey) -> JobView:
        try:
            return self._results.view(previous, key, Kind.RESPONSE)
        except JobNotFound as error:
            raise JobNotFound(f"{PARAM}: {error.message}", param=PARAM) from None
