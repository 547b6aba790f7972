"""A server of a few lines: answers anything on a Unix socket, and can have children that leave its process group.

    python standin_server.py SOCKET [daemon] [deaf] [fail] [memory]

`daemon` forks a child that calls setsid() and outlives it; `deaf` ignores SIGTERM; `fail` exits with status 3 at once;
`memory` makes a block of shared memory and notes its name in SOCKET.shared.
It keeps its pids in SOCKET.pids, one a line: its own, then the daemon's.
"""

from __future__ import annotations

import os
import signal
import socketserver
import sys
import time
from multiprocessing import shared_memory
from pathlib import Path


class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        if self.rfile.readline():
            self.wfile.write(b"yes\n")


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def main(path, *how: str):
    if "fail" in how:
        sys.exit(3)
    if "memory" in how:
        shared = shared_memory.SharedMemory(create=True, size=4096)
        Path(f"{path}.shared").write_text(shared.name)
    if "deaf" in how:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pids = [os.getpid()]
    if "daemon" in how:
        pids.append(daemon())
    Path(f"{path}.pids").write_text("".join(f"{pid}\n" for pid in pids))
    with Server(path, Answer) as server:
        server.serve_forever()


def daemon():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.write(write, b"+")
        while True:
            time.sleep(60)
    os.read(read, 1)
    return pid


if __name__ == "__main__":
    main(*sys.argv[1:])
