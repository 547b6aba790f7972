"""A replicated Redis under three Sentinels, all real processes, for tests of failovers."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import redis

from tests.support.redis_process import RedisProcess, free_port, redis_binary
from tests.support.waiting import wait_until

PASSWORD = "p-of-redis"
SENTINEL_PASSWORD = "p-of-sentinels"
SERVICE = "jobs"
_SENTINEL = """
port {port}
bind 127.0.0.1
dir {folder}
requirepass {own}
sentinel sentinel-pass {own}
sentinel monitor {service} 127.0.0.1 {master} 2
sentinel auth-pass {service} {password}
sentinel down-after-milliseconds {service} 1500
sentinel failover-timeout {service} 6000
sentinel parallel-syncs {service} 1
"""


class Fleet:
    """A master, a replica and three Sentinels. `kill_master` starts a failover; `revive` brings the dead one back."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="posthouse-sentinel-"))
        secret = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)
        self.nodes = [RedisProcess(password=PASSWORD, args=secret)]
        follow = ("--replicaof", "127.0.0.1", str(self.nodes[0].port))
        self.nodes.append(RedisProcess(password=PASSWORD, args=(*secret, *follow)))
        self._sentinels: dict[int, subprocess.Popen[bytes]] = {}
        for _ in range(3):
            self._start_sentinel(free_port())
        wait_until(self._settled, what="the Sentinels know each other and the replica", limit=60, every=0.1)

    def _start_sentinel(self, port: int) -> None:
        home = self.folder / str(port)
        home.mkdir()
        file = home / "sentinel.conf"
        file.write_text(
            _SENTINEL.format(port=port, folder=home, master=self.nodes[0].port, own=SENTINEL_PASSWORD,
                             password=PASSWORD, service=SERVICE)
        )  # fmt: skip
        command = [redis_binary(), str(file), "--sentinel"]
        self._sentinels[port] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(f"127.0.0.1:{port}" for port in self._sentinels)

    @property
    def settings(self) -> dict[str, object]:
        """What `[redis]` says of the jobs role. The host of the URL is nobody's, on purpose."""
        return {
            "jobs_url": f"redis://:{PASSWORD}@nowhere.invalid/0",
            "jobs_sentinels": self.addresses,
            "jobs_service": SERVICE,
            "sentinel_password": SENTINEL_PASSWORD,
        }

    def _asked(self) -> dict[int, dict[str, str]]:
        found = {}
        for port in self._sentinels:
            client = redis.Redis(
                port=port, password=SENTINEL_PASSWORD, decode_responses=True, protocol=2, socket_timeout=2
            )
            try:
                found[port] = dict(client.sentinel_master(SERVICE))
            except redis.RedisError:
                continue
            finally:
                client.close()
        return found

    def _settled(self) -> bool:
        asked = self._asked()
        synced = self.master().client().info("replication").get("slave0", {}).get("state") == "online"
        return synced and len(asked) == 3 and all(
            int(m["num-other-sentinels"]) == 2 and int(m["num-slaves"]) == 1 for m in asked.values()
        )  # fmt: skip

    def master(self) -> RedisProcess:
        """The node that answers as master."""
        return wait_until(self._find_master, what="a master", limit=60, every=0.1)

    def _find_master(self) -> RedisProcess | None:
        for node in self.nodes:
            try:
                if node.alive and node.client(timeout=2).role()[0] == "master":
                    return node
            except redis.RedisError:
                continue
        return None

    def kill_master(self) -> RedisProcess:
        """kill -9; returns the node that died."""
        node = self.master()
        node.kill()
        return node

    def failed_over_from(self, dead: RedisProcess) -> RedisProcess:
        """The new master, once there is one and most Sentinels name it."""

        def look() -> RedisProcess | None:
            node = self._find_master()
            named = [int(m["port"]) for m in self._asked().values()]
            return node if node is not None and node is not dead and named.count(node.port) >= 2 else None

        return wait_until(look, what="the failover", limit=60, every=0.1)

    def close(self) -> None:
        for process in self._sentinels.values():
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        for node in self.nodes:
            node.close()
        shutil.rmtree(self.folder, ignore_errors=True)
