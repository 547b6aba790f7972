"""The demo from beginning to end."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from app.demo import DemoFailedError
from app.demo.stack import DemoStack
from app.demo.stage import Stage

if TYPE_CHECKING:
    import psutil

_PACED = "paced"


def tell(question: str, engine: str | None) -> int:
    """Run the demo; returns the exit status: 0 only if all three answers came and nothing is left running."""
    started, stage = time.monotonic(), Stage(Console())
    with tempfile.TemporaryDirectory(prefix="posthouse-demo-") as folder:
        status = _tell(question, engine, Path(folder), stage)
    if status == 0:
        stage.say(f"\nDone in {time.monotonic() - started:.0f} s. `make up` leaves the same stack running.")
    return status


def _tell(question: str, engine: str | None, folder: Path, stage: Stage) -> int:
    stage.title("Starting the stack: Redis, API, model worker, webhook worker, Flower")
    stack = DemoStack(folder, engine, stage.hear)
    failure = ""
    try:
        with stage.busy("until a request would succeed"):
            stack.wait_ready()
        _ask(stack, question, engine, stage)
    except DemoFailedError as error:
        failure = str(error)
    except KeyboardInterrupt:
        failure = "interrupted"
    finally:
        left = _stop(stack, stage)
    return _close(failure, left, stage)


def _ask(stack: DemoStack, question: str, engine: str | None, stage: Stage) -> None:
    from openai import OpenAIError  # noqa: PLC0415 -- a production install may lack the SDK

    from app.demo.questions import Asker  # noqa: PLC0415 -- imports the SDK
    from app.demo.receiver import Receiver  # noqa: PLC0415 -- the same moment

    if engine != _PACED:
        stage.title("The engine's own word on its weights")
        stage.say(f"  {stack.kernel_line() or 'it did not name a kernel'}")
    receiver = Receiver()
    try:
        asker = Asker(stack.url, stack.key, question, stage)
        stage.say(f"\nQuestion to {asker.model}: {question}")
        stage.title("1. In the background, then polled")
        asker.poll()
        stage.title("2. As a stream")
        asker.stream()
        stage.title("3. By webhook")
        asker.webhook(receiver)
    except OpenAIError as error:
        raise DemoFailedError(f"{type(error).__name__}: {error}") from error
    finally:
        receiver.close()


def _stop(stack: DemoStack, stage: Stage) -> list[psutil.Process]:
    stage.title("Stopping everything")
    with stage.busy("until all processes are gone"):
        return stack.stop()


def _close(failure: str, left: list[psutil.Process], stage: Stage) -> int:
    if left:
        failure = failure or f"still running: {', '.join(str(process.pid) for process in left)}"
    else:
        stage.say("  nothing is left running")
    if failure:
        stage.say(f"\nThe demo failed: {failure}", style="bold red")
        return 1
    return 0
