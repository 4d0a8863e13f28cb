"""A master, its replica and three sentinels, each a process of its own on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import redis

from config.embedded import binaries
from tests.jobs.ports import free_port
from tests.redis import Proxy
from tests.wait import wait_until

_SENTINEL = """
port {port}
dir {folder}
sentinel monitor jobs 127.0.0.1 {master} 2
sentinel down-after-milliseconds jobs 2000
sentinel failover-timeout jobs 5000
"""


def program() -> str:
    """Redis where there is one, else the Valkey of the embedded servers."""
    return shutil.which("redis-server") or str(binaries.valkey_program())


class Sentinels:
    """The first sentinel is reached through a network that can fail."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[int, subprocess.Popen[bytes]] = {}
        self.master, self.replica = free_port(), free_port()
        self._serve(self.master)
        self._serve(self.replica, "--replicaof", f"127.0.0.1 {self.master}")
        for port in (self.master, self.replica):
            wait_until(partial(self._answers, port))
        self.ports = [self._watch() for _ in range(3)]
        self.first = Proxy(f"redis://127.0.0.1:{self.ports[0]}")
        for port in self.ports:
            wait_until(partial(self._knows_all, port))

    @property
    def described(self) -> dict[str, Any]:
        """As RQ_QUEUES names them, without any timeout."""
        ports = [self.first.port, *self.ports[1:]]
        return {
            "SENTINELS": [["127.0.0.1", port] for port in ports],
            "MASTER_NAME": "jobs",
            "DB": 0,
            "SERIALIZER": "rq.serializers.JSONSerializer",
        }

    def pause(self, port: int) -> None:
        """The server says nothing, and its connections stay open."""
        os.kill(self._servers[port].pid, signal.SIGSTOP)

    def proceed(self, port: int) -> None:
        os.kill(self._servers[port].pid, signal.SIGCONT)

    def current(self) -> int:
        """The port of the master, as the last sentinel knows it."""
        found = self._client(self.ports[2]).sentinel_get_master_addr_by_name("jobs")
        return int(found[1]) if found else 0

    def close(self) -> None:
        self.first.close()
        for server in self._servers.values():
            server.kill()
            server.wait()

    def _serve(self, port: int, *more: str) -> None:
        command = [program(), "--port", str(port), "--save", "", "--dir", str(self._folder), *more]
        self._start(port, command)

    def _watch(self) -> int:
        port = free_port()
        file = self._folder / f"sentinel-{port}.conf"
        file.write_text(_SENTINEL.format(port=port, folder=self._folder, master=self.master))
        self._start(port, [program(), str(file), "--sentinel"])
        return port

    def _start(self, port: int, command: list[str]) -> None:
        with (self._folder / f"{port}.log").open("wb") as log:
            self._servers[port] = subprocess.Popen(command, stdout=log, stderr=log)

    def _client(self, port: int) -> Any:
        return redis.Redis(port=port, socket_timeout=2)

    def _answers(self, port: int) -> bool:
        try:
            return bool(self._client(port).ping())
        except redis.ConnectionError:
            return False

    def _knows_all(self, port: int) -> bool:
        if not self._answers(port):
            return False
        known = self._client(port).sentinel_master("jobs")
        return bool(known["num-other-sentinels"] == 2 and known["num-slaves"] == 1)
