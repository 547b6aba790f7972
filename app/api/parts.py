"""What the HTTP face works with; made by `bootstrap`, reached by routes through `parts()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from flask import current_app

from app.api.closing import Closing
from app.jobs.feed import Feed
from app.jobs.store import JobStore
from app.jobs.voids import Owed
from app.services.cancel import Cancel
from app.services.catalogue import Catalogue
from app.services.client_tokens import ClientTokens
from app.services.conversation import Conversation
from app.services.dead_letters import DeadLetters
from app.services.keys import KeyStore
from app.services.listing import Listing
from app.services.models import Models
from app.services.pool import Pool
from app.services.results import Results
from app.services.storage import Storage
from app.services.submit import Submit
from app.settings import Settings
from cache.response_cache import ResponseCache

EXTENSION = "posthouse"


@dataclass(frozen=True)
class ApiParts:
    """Everything that a route may use.

    Attributes:
        settings: as at the start of this process; the models of the moment are in `catalogue`.
        webhook_secret: tenant -> the secret that signs its webhooks; made at the first call.
        rotate_webhook_secret: tenant -> a new one; the one before signs along for a day.
        voids: submits with an unknown outcome, owed to Redis.
    """

    settings: Settings
    catalogue: Catalogue
    store: JobStore
    feed: Feed
    voids: Owed
    keys: KeyStore
    client_tokens: ClientTokens
    models: Models
    pool: Pool
    storage: Storage
    cache: ResponseCache
    dead_letters: DeadLetters
    submit: Submit
    results: Results
    cancel: Cancel
    conversation: Conversation
    listing: Listing
    webhook_secret: Callable[[str], str]
    rotate_webhook_secret: Callable[[str], str]
    closing: Closing


def parts() -> ApiParts:
    """The parts of the application that serves this request."""
    return cast("ApiParts", current_app.extensions[EXTENSION])
