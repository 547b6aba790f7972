"""`posthouse …`: finds the subcommand's file when it is asked for, so that `--help` and each role start fast.

Roles are not run here: `posthouse api`, `worker`, `webhooks` and `flower` become gunicorn, Celery and Flower by exec.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

# Name, module below app.commands, and the line that `--help` shows.
_COMMANDS = {
    "up": ("up", "The whole stack on this machine, under one supervisor."),
    "reload": ("reload", "Let a running stack take models from its changed configuration, without a restart."),
    "demo": ("demo", "One real question, answered by poll, stream and webhook; then everything is stopped."),
    "api": ("roles", "The HTTP face (gunicorn)."),
    "worker": ("roles", "One GPU worker and its model instance (Celery)."),
    "webhooks": ("roles", "One worker that delivers webhooks (Celery)."),
    "flower": ("roles", "The operators' window on the queue (Flower)."),
    "bench": ("bench", "Measure engines on this machine."),
    "keys": ("keys", "Create, list, revoke and rotate API keys."),
    "pool": ("pool", "Show, drain, resume and restart instances."),
    "breakers": ("breakers", "Show and reset the instances' circuit breakers."),
    "cache": ("cache", "Show and clear the response cache."),
    "top": ("top", "A live view of lines, waits, instances, breakers and the cache."),
    "jobs": ("jobs", "List dead letters and try them again."),
}


class _Lazy(click.Group):
    """A group whose commands are imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- the signature is click's
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"app.commands.{_COMMANDS[cmd_name][0]}")
        command: Any = getattr(module, cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 -- the table above is ours
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="posthouse")
def main() -> None:
    """Posthouse: durable, OpenAI-compatible, asynchronous LLM inference."""


if __name__ == "__main__":
    main(prog_name="posthouse")
