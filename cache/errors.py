"""What this room raises; callers translate it.

CacheConfigError (ValueError)   a lifetime or limit that makes no sense, refused at construction
UnreadableEntry (ValueError)    stored text that is no entry of this version
StoreUnavailable (Exception)    the store did not answer, or its breaker is open
"""

from __future__ import annotations


class CacheConfigError(ValueError):
    """A setting is unusable; the message says which and what would do."""


class UnreadableEntry(ValueError):
    """The text is not an entry of this schema version: broken, or written by a newer or older process."""


class StoreUnavailable(Exception):
    """The store gave no answer in time, or is left alone for a while because it gave none before."""
