"""A process follows the models in its configuration file while it serves; nothing is restarted for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import structlog

from app.sections import ModelSettings
from app.services.catalogue import Catalogue
from app.settings import ConfigurationError

LOOK_SECONDS = 0.5

_log = structlog.get_logger(__name__)


class ModelWatch:
    """Looks at the file's stamp and, when it has changed, offers the models that stand there now.

    A file that cannot be used, or that names no model, is warned of once and changes nothing. Editors may write in
    several steps, so a changed file is read once it has rested for one look.

    Args:
        stamp: cheap; another value when the file is another (see `app.settings.file_stamp`).
        load: the models as configured now; raises `ConfigurationError`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        stamp: Callable[[], object],
        load: Callable[[], Mapping[str, ModelSettings]],
    ) -> None:
        self._catalogue = catalogue
        self._stamp = stamp
        self._load = load
        self._read = self._seen = stamp()

    def start(self) -> None:
        """Look from now on, in a thread of its own (with gevent: a greenlet)."""
        threading.Thread(target=self._run, name="models", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """One look; never raises."""
        stamp = self._stamp()
        rested, self._seen = stamp == self._seen, stamp
        if stamp == self._read or not rested:
            return
        self._read = stamp
        try:
            changed = self._take()
        except ConfigurationError as error:
            _log.warning("models_not_followed", why=str(error))
            return
        if changed:
            _log.info("models_changed", changed=changed, models=list(self._catalogue))

    def _take(self) -> list[str]:
        models = self._load()
        if not models and self._catalogue:
            raise ConfigurationError("the file names no model; those before stay")
        return self._catalogue.swap(models)
