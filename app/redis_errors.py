"""What a failing Redis means to a client, in one place: away -> `QueueUnavailable`, full -> `StorageFull`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from app.errors import QueueUnavailable, StorageFull
from app.redis import REDIS_AWAY

RETRY_AFTER = 2.0
_RETRY_AFTER_FULL = 30.0
_NOT_NOW = ("BUSY ", "NOREPLICAS ")  # a script runs too long, or too few replicas are there to write


class ConnectionNeverMade(QueueUnavailable):
    """Nothing was sent, so nothing can run."""


@contextmanager
def translated() -> Iterator[None]:
    """Run Redis commands; their failures come out as the errors that clients see."""
    try:
        yield
    except OutOfMemoryError:
        raise StorageFull("the queue's storage is full; try again later", retry_after=_RETRY_AFTER_FULL) from None
    except ReadOnlyError:
        raise QueueUnavailable("the queue is read-only just now", retry_after=RETRY_AFTER) from None
    except REDIS_AWAY as error:
        refused = isinstance(error.__cause__ or error.__context__, ConnectionRefusedError)
        kind = ConnectionNeverMade if refused else QueueUnavailable
        raise kind("the queue does not answer just now", retry_after=RETRY_AFTER) from error
    except ResponseError as error:
        if str(error).startswith("MISCONF"):
            raise StorageFull("the queue's storage cannot be written", retry_after=_RETRY_AFTER_FULL) from None
        if str(error).startswith(_NOT_NOW):
            raise QueueUnavailable("the queue takes no commands just now", retry_after=RETRY_AFTER) from None
        raise
