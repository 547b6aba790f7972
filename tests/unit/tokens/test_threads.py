"""Long work leaves the thread in which all greenlets live. In a process of its own, as patching cannot be undone."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from app.tokens.tokenizer import ModelCounter
from tests.support.tiny_model import make_tiny_model

PREFACE = """
from gevent import monkey
monkey.patch_all()
import gevent
from app.errors import QueueUnavailable
from app.tokens.threads import Threads
Event = monkey.get_original("threading", "Event")
"""
# The work ends only when another greenlet lets it: on the hub's own thread it would wait for ever.
OTHERS_GO_ON = """
door = Event()
work = gevent.spawn(Threads().run, lambda: door.wait(20))
gevent.spawn_later(0, door.set)
work.join(30)
print(work.value)
"""
BOUNDED = """
door, threads = Event(), Threads(size=1, waiting=1)
first = [gevent.spawn(threads.run, lambda: door.wait(20)) for _ in range(2)]
gevent.sleep(0)
try:
    threads.run(lambda: 1)
except QueueUnavailable as error:
    print(error.retry_after)
door.set()
gevent.joinall(first, timeout=30)
print(threads.run(lambda: 2))
"""
ERRORS = """
def work():
    raise ValueError("a secret prompt")
try:
    Threads().run(work)
except ValueError as error:
    print("raised", len(str(error)))
"""


def run(script: str) -> tuple[str, str]:
    command = [sys.executable, "-c", PREFACE + script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_other_greenlets_go_on_while_a_long_prompt_is_counted() -> None:
    assert run(OTHERS_GO_ON)[0] == "True"


def test_no_more_than_so_many_may_wait() -> None:
    assert run(BOUNDED)[0].split() == ["1", "2"]


def test_what_fails_there_is_raised_here_and_printed_nowhere() -> None:
    said, printed = run(ERRORS)
    assert said == "raised 15"
    assert "secret" not in printed


def test_the_tokenizer_lets_other_threads_run_meanwhile(tmp_path: Path) -> None:
    """Else a thread of its own would help nobody: one way of encoding holds the interpreter's lock to its end."""
    counter = ModelCounter.from_folder(make_tiny_model(tmp_path / "tiny"))
    messages = [{"role": "user", "content": "some words and more " * 50_000}]
    ticks, done = [0], threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks[0] += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    template = counter._template.render(messages, None)
    before = ticks[0]
    counter._encoded(template)
    after = ticks[0]
    done.set()
    ticker.join()
    assert after - before >= 20
