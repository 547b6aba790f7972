"""A tenant's jobs, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.errors import InvalidRequest
from app.jobs.job import JobView, Kind, Status
from app.jobs.store import JobStore
from app.services.keys import ApiKey

_CHUNK = 100
_MOST_LOOKED_AT = 2000


@dataclass(frozen=True)
class Page:
    """Jobs and whether older ones may match too."""

    jobs: list[JobView]
    has_more: bool


class Listing:
    """The use case. One call looks at a bounded number of jobs; a filter that matches few gives short pages."""

    def __init__(self, store: JobStore) -> None:
        self._store = store

    def page(
        self, key: ApiKey, *, after: str | None, limit: int, status: Status | None, metadata: Mapping[str, str]
    ) -> Page:
        """Up to `limit` responses older than `after` that have the status and all of the metadata.

        Raises:
            InvalidRequest: `after` is not in the list.
        """

        def matches(view: JobView) -> bool:
            wanted = view.kind is Kind.RESPONSE and key.sees(view) and status in {None, view.status}
            return wanted and all(view.metadata.get(k) == v for k, v in metadata.items())

        jobs = list(self._matching(key.tenant, after, limit + 1, matches))
        return Page(jobs[:limit], len(jobs) > limit)

    def _matching(
        self, tenant: str, after: str | None, wanted: int, matches: Callable[[JobView], bool]
    ) -> Iterator[JobView]:
        looked_at = found = 0
        while looked_at < _MOST_LOOKED_AT and found < wanted:
            ids = self._store.page_of_jobs(tenant, before=after, count=_CHUNK)
            if ids is None:
                raise InvalidRequest(f"after: {str(after)[:80]!r} is not in the list", param="after")
            if not ids:
                return
            looked_at += len(ids)
            views = {job_id: self._store.view(job_id) for job_id in ids}
            for view in views.values():
                if view is not None and found < wanted and matches(view):
                    found += 1
                    yield view
            # The cursor stays in the list until it has been used.
            self._store.drop_listed(tenant, [j for j, view in views.items() if view is None and j != ids[-1]])
            after = ids[-1]
