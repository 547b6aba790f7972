"""`posthouse demo`: the whole of Posthouse in one question."""

from __future__ import annotations

import sys

import click


@click.command()
@click.option("--engine", help="Another engine than vLLM with the 4-bit demo model; `paced` echoes the question.")
@click.option("--question", default="What is the capital of France, and what is it known for?", show_default=True)
def demo(engine: str | None, question: str) -> None:
    """One real question, answered by poll, stream and webhook; then everything is stopped.

    Uses free ports and a temporary data folder: whatever else runs on this machine is left alone.
    """
    from app.demo import story  # noqa: PLC0415 -- `--help` should not wait for it

    sys.exit(story.tell(question, engine))
