"""A command's side of the shared servers: start the supervisor if need be, and hold on to it."""

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.embedded import choice, places
from config.embedded.errors import EmbeddedError

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0

# Bare descriptors, never closed: the kernel closes them when the process ends, however it ends.
_held: list[int] = []


def data_folder() -> Path:
    """Return the folder of the shared servers; each choice of servers has its own."""
    base = Path(os.environ.get("JOBDESK_DATA") or CHECKOUT / ".data").resolve()
    return base if choice.chosen() == "embedded" else base / choice.chosen()


def addresses(data: Path | None = None) -> dict[str, str]:
    """The URLs at which the shared servers answer while somebody holds them."""
    data = data or data_folder()
    return {kind: server.url for kind, server in choice.pair(data).items()}


def hold(*kinds: str, data: Path | None = None) -> dict[str, str]:
    """The shared servers run, at the returned URLs, until this process and its forks are gone."""
    data = data or data_folder()
    places.data_folder(data)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        line = _connect(data) or _connect_after_start(data)
        if line is None:
            continue
        answer = ask(line, {"hold": list(kinds)}, PATIENCE)
        if answer is None:  # it was just leaving
            line.close()
            continue
        if "error" in answer:
            line.close()
            raise EmbeddedError(answer["error"])
        _held.append(line.detach())
        urls: dict[str, str] = answer["urls"]
        return urls
    raise EmbeddedError(f"the embedded servers did not start; see {data / 'supervisor.log'}")


def call(request: dict[str, Any], data: Path | None = None) -> dict[str, Any] | None:
    """The running supervisor's answer, or None when none runs."""
    line = _connect(data or data_folder())
    if line is None:
        return None
    with line:
        return ask(line, request, PATIENCE)


def ask(line: socket.socket, request: dict[str, Any], patience: float) -> dict[str, Any] | None:
    line.settimeout(patience)
    try:
        line.sendall(json.dumps(request).encode() + b"\n")
        received = b""
        while not received.endswith(b"\n"):
            part = line.recv(65536)
            if not part:
                return None
            received += part
    except TimeoutError:
        raise EmbeddedError("the supervisor of the embedded servers does not answer") from None
    except OSError:
        return None
    answer: dict[str, Any] = json.loads(received)
    return answer


def control(data: Path) -> Path:
    return places.sockets(data) / "control"


def _connect(data: Path) -> socket.socket | None:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(str(control(data)))
    except OSError:
        line.close()
        return None
    return line


def _connect_after_start(data: Path) -> socket.socket | None:
    with _only_one(data / "start.lock"):
        line = _connect(data)
        if line is not None:
            return line
        _start_supervisor(data)
        deadline = time.monotonic() + PATIENCE
        while line is None and time.monotonic() < deadline:
            time.sleep(0.01)
            line = _connect(data)
        return line


def _start_supervisor(data: Path) -> None:
    # Started through a short-lived process, so that it is nobody's child to reap.
    started = subprocess.run(
        [sys.executable, "-m", "config.embedded.supervisor", str(data)],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if started.returncode != 0:
        lines = started.stderr.strip().splitlines() or ["no output"]
        raise EmbeddedError(f"the supervisor of the embedded servers failed: {lines[-1]}")


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
