"""The thread that takes the sequences in turn."""

from __future__ import annotations

import queue
import signal
import threading
from typing import TYPE_CHECKING, Any

import structlog

from model_pool.servers.face.model_engine import Batch
from model_pool.servers.onnxruntime.sequence import Sequence

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from model_pool.servers.face.model_engine import Order

_log = structlog.get_logger(__name__)


class OnnxSource:
    """Makes tokens on one thread, which holds all that belongs to onnxruntime.

    Args:
        model: the loaded model.
        ends: ids of the tokens that end an answer.
    """

    def __init__(self, model: Any, ends: Collection[int]) -> None:
        self._model = model
        self._ends = frozenset(ends)
        self._inbox: queue.SimpleQueue[tuple[Order, bool]] = queue.SimpleQueue()
        self._running: dict[int, tuple[Order, Sequence]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; news go to `loop`."""
        self._loop = loop
        threading.Thread(target=self._guarded, name="generation", daemon=True).start()

    def start(self, order: Order) -> None:
        self._inbox.put((order, True))

    def cancel(self, order: Order) -> None:
        self._inbox.put((order, False))

    def _guarded(self) -> None:
        try:
            while True:
                self._turn()
        except Exception as error:  # noqa: BLE001 -- without this thread the process is of no use
            _log.error("generation_thread_ended", error=type(error).__name__)
            signal.raise_signal(signal.SIGTERM)

    def _turn(self) -> None:
        """Read what was asked meanwhile, waiting only if there is nothing to do; then a step for each sequence."""
        while not self._running or not self._inbox.empty():
            self._take(*self._inbox.get())
        news = [(order, batch) for order, batch in map(self._step, list(self._running)) if batch is not None]
        if news and self._loop is not None:
            self._loop.call_soon_threadsafe(_deliver, news)

    def _take(self, order: Order, wanted: bool) -> None:
        if not wanted:
            self._running.pop(id(order), None)
            return
        try:
            self._running[id(order)] = (order, Sequence(self._model, order, self._ends))
        except Exception as error:  # noqa: BLE001 -- genai raises RuntimeError, std::bad_alloc comes as MemoryError
            self._fail(order, error)

    def _step(self, key: int) -> tuple[Order, Batch | None]:
        order, sequence = self._running[key]
        try:
            batch, last = sequence.step()
        except Exception as error:  # noqa: BLE001 -- as above; the sequence's own failure
            batch, last = _failure(error), True
        if last:
            del self._running[key]
        return order, batch

    def _fail(self, order: Order, error: Exception) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(_deliver, [(order, _failure(error))])


def _failure(error: Exception) -> Batch:
    _log.warning("sequence_failed", error=type(error).__name__)
    return Batch(failure="out of memory" if isinstance(error, MemoryError) else f"{type(error).__name__}: {error}")


def _deliver(news: list[tuple[Order, Batch]]) -> None:
    for order, batch in news:
        order.deliver(batch)
