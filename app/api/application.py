"""The Flask application: a blueprint a resource, one error handler, every request observed."""

from __future__ import annotations

from flask import Flask
from prometheus_client import REGISTRY, CollectorRegistry

from app.api import (
    admin_cache,
    admin_jobs,
    admin_pool,
    admin_queues,
    chat,
    client_tokens,
    cors,
    error_handler,
    health,
    metrics,
    models,
    observing,
    rate_headers,
    reference,
    response_lists,
    responses,
    webhook_secret,
)
from app.api.measures import Measures
from app.api.parts import EXTENSION, ApiParts

_BLUEPRINTS = (
    responses.blueprint,
    response_lists.blueprint,
    chat.blueprint,
    client_tokens.blueprint,
    models.blueprint,
    webhook_secret.blueprint,
    health.blueprint,
    reference.blueprint,
    metrics.blueprint,
    admin_pool.blueprint,
    admin_jobs.blueprint,
    admin_queues.blueprint,
    admin_cache.blueprint,
)


def create_app(parts: ApiParts, registry: CollectorRegistry = REGISTRY) -> Flask:
    """The HTTP face over these parts. `registry` takes its measurements."""
    app = Flask("posthouse", static_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.extensions[EXTENSION] = parts
    error_handler.register(app)
    observing.register(app, Measures(registry))
    rate_headers.register(app)
    cors.register(app, frozenset(parts.settings.api.cors_origins))
    for blueprint in _BLUEPRINTS:
        app.register_blueprint(blueprint)
    return app
