"""Parsers of files that strangers have sent, each in a child that can do nothing else.

::

    # shop/parsers/pdf.py: no Django here, and nothing that needs settings
    def main(file: BinaryIO, pages: int) -> list[str]: ...

    found = sandbox.run("shop.parsers.pdf", path, sandbox.Limits(cpu=10), options={"pages": 500})
    if found.status != "ok":
        raise jobs.Unrecoverable(f"{found.status}: {found.message}")
    pages = found.value

The child reads its file, Python and the parser's package. It has no network, no other files, no
other processes and no environment. Whatever a file does to a parser ends with the child.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

from jobs import jsontext
from jobs.errors import InvalidOption
from jobs.sandbox import jail

__all__ = ["Limits", "Outcome", "isolation", "run"]

Status = Literal["ok", "error", "oom", "cpu_limit", "timeout", "output_limit", "stopped", "crashed"]
Isolation = Literal["full", "partial"]
VALUES, CONTAINERS = 1_000_000, 200_000
"""Values, and lists and objects, of a result: each takes a hundred bytes in memory."""
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_ESCAPED = re.compile(rb"\\u(0000|[dD][89a-fA-F])")
_SYSTEM = (
    "/usr/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache",
)  # fmt: skip
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "OMP_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a parser may use: bytes of memory and output, seconds of CPU, and of the clock."""

    memory: int = 512 * 1024**2
    cpu: int = 20
    wall: float = 30.0
    output: int = 64 * 1024**2
    readable: tuple[str, ...] = ()
    """Files and folders that the parser may read besides, such as language data."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("memory", 64 * 1024**2, 64 * 1024**3), ("cpu", 1, 3600), ("wall", 0.1, 7200),
            ("output", 256, 1024**3),
        ):  # fmt: skip
            value = getattr(self, name)
            is_number = isinstance(value, int | float if name == "wall" else int)
            if not is_number or isinstance(value, bool) or not least <= value <= most:
                raise InvalidOption(name, f"must lie between {least} and {most}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a parser ended.

    ``ok`` has a ``value``; ``error`` the ``type`` and ``message`` of the exception that it raised.
    The others were ended by a limit, ``stopped`` from outside, or ``crashed``. All of it is the
    word of a process that a stranger's file may have taken over: only its size and form are
    checked.
    """

    status: Status
    value: Any = None
    type: str = ""
    message: str = ""
    isolation: Isolation = "partial"
    """Whether the kernel kept it from files, processes and the network, or only limited it."""
    cpu: float = 0.0
    """Seconds of CPU that it took."""
    memory: int = 0
    """Bytes of memory that it had at most."""


def isolation() -> Isolation:
    """Return how parsers are isolated on this machine."""
    return "full" if jail.landlock_version() and jail.has_seccomp() else "partial"


def run(
    module: str,
    file: str | os.PathLike[str] | BinaryIO,
    limits: Limits | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_stop: Callable[[Callable[[str], object]], object] | None = None,
) -> Outcome:
    """Run ``main(file, **options)`` of the module in a child, and return how that ended.

    ``file`` is a path, or a file that is open for reading only. What ``main`` returns must be JSON.
    ``on_stop`` is given a callback that ends the child early, from any thread; in a handler, it is
    ``ctx.on_stop``. Raises InvalidOption if the module cannot be imported in there.
    """
    if isinstance(file, str | os.PathLike):
        with Path(file).open("rb") as opened:
            return run(module, opened, limits, options=options, on_stop=on_stop)
    if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
        raise InvalidOption("file", "must be open for reading only")
    limits = limits or Limits()
    task = _task(module, limits, dict(options or {}))
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    child = subprocess.Popen(
        [sys.executable, "-I", "-B", jail.__file__, json.dumps(task)],
        stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True, env=_ENVIRONMENT, cwd="/",
    )  # fmt: skip
    killer = _Killer(child.pid)
    try:
        if on_stop is not None:
            on_stop(killer.stop)
        ended, data = _read(child, limits)
    finally:
        killer.end()
        cpu, memory = _reap(child)
        if child.stdout is not None:
            child.stdout.close()
    if killer.was_asked:
        return Outcome(
            "stopped", isolation=_isolation(bytes(data.partition(b"\n")[0])), cpu=cpu, memory=memory
        )
    return _outcome(module, limits, ended, bytes(data), child.returncode, cpu, memory)


class _Killer:
    """Kills a child and whatever it has started, and nobody who has its number later."""

    def __init__(self, pid: int) -> None:
        self._pid: int | None = pid
        self._lock = threading.Lock()
        self.was_asked = False

    def stop(self, reason: str = "") -> None:
        """End the child early; does nothing once it has been reaped."""
        with self._lock:
            if self._pid is not None:
                self.was_asked = True
                self._kill(self._pid)

    def end(self) -> None:
        """End the child for good, just before it is reaped."""
        with self._lock:
            if self._pid is not None:
                self._kill(self._pid)
            self._pid = None

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _task(module: str, limits: Limits, options: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(module, str) or not _MODULE.match(module):
        raise InvalidOption("module", f"must be like 'shop.parsers.pdf', got {module!r:.100}")
    name = module.partition(".")[0]
    spec = None if name == "__main__" else importlib.util.find_spec(name)
    if spec is None:
        raise InvalidOption("module", f"there is no {name!r}")
    folders = list(spec.submodule_search_locations or []) or None
    origin = spec.origin if spec.has_location else None
    if folders is None and origin is None:
        raise InvalidOption("module", f"{name!r} is no file")
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    code = folders or [str(origin)]
    return {
        "module": module,
        "package": [name, origin, folders],
        "readable": [*python, *_SYSTEM, jail.__file__, *code, *limits.readable],
        "memory": limits.memory,
        "cpu": limits.cpu,
        "parent": os.getpid(),
        "options": options,
    }


def _read(
    child: subprocess.Popen[bytes], limits: Limits
) -> tuple[Literal["", "timeout", "output_limit"], bytearray]:
    """Return which limit was reached, if any, and what the child has written."""
    end, data = time.monotonic() + limits.wall, bytearray()
    assert child.stdout is not None  # noqa: S101 - it is a pipe
    os.set_blocking(child.stdout.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        while (left := end - time.monotonic()) > 0:
            if not ready.select(left):
                continue
            piece = os.read(child.stdout.fileno(), 1 << 20)
            if not piece:
                return "", data
            data += piece
            if len(data) > limits.output:
                return "output_limit", data
    return "timeout", data


def _reap(child: subprocess.Popen[bytes]) -> tuple[float, int]:
    """Wait for the end of the child; return the seconds and bytes that it has used."""
    try:
        _, status, usage = os.wait4(child.pid, 0)
    except ChildProcessError:  # in a process that ignores SIGCHLD nobody hears of it
        child.returncode = 0
        return 0.0, 0
    child.returncode = os.waitstatus_to_exitcode(status)
    scale = 1 if sys.platform == "darwin" else 1024
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale


def _outcome(
    module: str,
    limits: Limits,
    ended: Literal["", "timeout", "output_limit"],
    data: bytes,
    code: int,
    cpu: float,
    memory: int,
) -> Outcome:
    head, _, rest = data.partition(b"\n")
    made = partial(Outcome, isolation=_isolation(head), cpu=cpu, memory=memory)
    if ended:
        return made(ended)
    found = _parsed(rest)
    result = found if isinstance(found, dict) else {}
    status = result.get("status")
    kind, message = (str(result.get(name, ""))[:500] for name in ("type", "message"))
    if status == "ok":
        return made("ok", result.get("value"))
    if status == "unloadable":
        raise InvalidOption("module", f"{module}: {kind}: {message}")
    if status == "error":
        return made("error", type=kind, message=message)
    if status == "oom":
        return made("oom")
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu >= limits.cpu):
        return made("cpu_limit")
    how = f"signal {signal.Signals(-code).name}" if code < 0 else "no proper result"
    return made("crashed", message=how)


def _isolation(head: bytes) -> Isolation:
    """Return what the child has written before it loaded the parser."""
    done = _parsed(head[:200])
    if not isinstance(done, dict):
        return "partial"
    return "full" if done.get("landlock") and done.get("seccomp") else "partial"


def _parsed(data: bytes) -> Any:
    """Return the JSON; None if it is none, or would take much more memory than it has bytes."""
    if jsontext.is_crowded(data, VALUES, CONTAINERS):
        return None
    try:
        found = json.loads(data.decode("ascii"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return _storable(found) if _ESCAPED.search(data) else found


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _storable(value: Any) -> Any:
    """Return the value with U+FFFD for each NUL and lone surrogate, which no database takes."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_storable(one) for one in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(one) for name, one in value.items()}
    return value
