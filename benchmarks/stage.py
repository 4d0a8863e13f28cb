"""What the process that measures is told of the servers of its run.

It may belong to another commit's tree, and so imports nothing of the project.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Running:
    """A server as the process that measures sees it."""

    url: str
    superuser_url: str
    pid: int
    folder: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers of one run and the folder of its other files."""

    folder: Path
    postgres: Running
    redis: Running
    fsync_ms: float

    def with_settings(self, settings: Mapping[str, str]) -> Stage:
        """Return the same servers, with settings of PostgreSQL for every connection to it."""
        if not settings:
            return self
        options = quote(" ".join(f"-c {name}={value}" for name, value in settings.items()))
        url = self.postgres.url
        url += f"{'&' if '?' in url else '?'}options={options}"
        return replace(self, postgres=replace(self.postgres, url=url))

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        known: dict[str, Any] = json.loads(text)
        return cls(
            Path(known["folder"]),
            _running(known["postgres"]),
            _running(known["redis"]),
            known["fsync_ms"],
        )


def _running(known: dict[str, Any]) -> Running:
    return Running(**{**known, "folder": Path(known["folder"]), "log": Path(known["log"])})


def free_port() -> int:
    """A port on loopback that nobody listens to."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def fsync_ms(folder: Path, repeats: int = 200) -> float:
    """How long the disk under the folder takes to write 8 KiB for good (median)."""
    file = folder / "fsync.tmp"
    times = []
    handle = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(handle, bytes(1 << 20))
        os.fsync(handle)
        sync = getattr(os, "fdatasync", os.fsync)
        for turn in range(repeats):
            os.lseek(handle, turn % 128 * 8192, os.SEEK_SET)
            began = time.perf_counter()
            os.write(handle, bytes(8192))
            sync(handle)
            times.append(time.perf_counter() - began)
    finally:
        os.close(handle)
        file.unlink()
    return round(statistics.median(times) * 1000, 3)
