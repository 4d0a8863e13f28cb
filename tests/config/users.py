"""Processes that use the shared servers of a data folder, as management commands do."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import psutil

from config.embedded import choice, client

HOLD = """
import json, os, sys
from config import embedded
print(json.dumps(embedded.hold(*sys.argv[1:])), flush=True)
if "fork" in os.environ.get("THEN", "") and os.fork() == 0:
    os.setsid()
sys.stdin.read()
"""


def environment(data: Path, **more: str) -> dict[str, str]:
    ours = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DEBUG"}
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    return {**kept, "JOBDESK_DATA": str(data), **more}


def run(data: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=client.CHECKOUT,
        env=environment(data, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class User:
    """A process that holds the servers until its input is closed."""

    def __init__(self, data: Path, *kinds: str, **more: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLD, *(kinds or ("postgres", "valkey"))],
            cwd=client.CHECKOUT,
            env=environment(data, **more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.urls: dict[str, str] = {}

    def ready(self) -> Self:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.leave()
            raise AssertionError("the user ended instead of holding the servers")
        self.urls = json.loads(line)
        return self

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def leave(self) -> None:
        self._process.communicate()

    def __enter__(self) -> Self:
        return self.ready()

    def __exit__(self, *_: object) -> None:
        self.leave()


def status(data: Path) -> dict[str, Any]:
    return client.call({"do": "status"}, data) or {}


def processes_of(data: Path) -> list[int]:
    """Every living process that has ``data`` or a socket of it in its command line."""
    servers = choice.pair(data).values()
    marks = [f"config.embedded.supervisor {data}"]
    marks += [str(path) for server in servers for path in (server.sockets, server.folder)]
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = " ".join(process.info["cmdline"] or [])
        if any(mark in command for mark in marks):
            found.append(process.pid)
    return found
