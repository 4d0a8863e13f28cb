"""The child of a sandbox: locks itself in, then imports a parser and runs it on its standard input.

Started by path, with the standard library only. What it may still do when it runs code of others:
read its input, Python and the parser's package, use memory and CPU up to its limits, and write one
result. Every step that the kernel does not know is left out, and the first line that is written
says what was done.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import platform
import resource
import signal
import struct
import sys
from types import ModuleType
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVS = 1, 4, 22, 38
_READ_FILE, _READ_DIR, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
NICER = 5
"""How much lower its priority is: workers and web servers go first."""
_TOO_NEW = 0x40000000
"""Numbers of system calls above this are those of the x32 ABI, which no filter here knows."""
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050001, 0x80000000

# What makes processes, reaches other processes or the network, or changes files that it may not
# open (Landlock leaves modes, owners and attributes alone).
_DENIED = {
    "x86_64": (
        29, 41, 42, 49, 50, 53, 56, 57, 58, 59, 62, 64, 68, 76, 90, 91, 92, 93, 94, 101, 129, 132,
        141, 142, 144, 165, 188, 189, 190, 197, 198, 199, 200, 203, 235, 240, 248, 249, 250, 251,
        260, 261, 268, 272, 280, 297, 298, 308, 310, 311, 314, 319, 321, 322, 323, 424, 425, 426,
        427, 434, 435, 438, 452, 463, 466,
    ),
    "aarch64": (
        5, 6, 7, 14, 15, 16, 30, 40, 45, 52, 53, 54, 55, 88, 97, 117, 118, 119, 122, 129, 130, 138,
        140, 180, 186, 190, 194, 198, 199, 200, 201, 203, 217, 218, 219, 220, 221, 240, 241, 268,
        270, 271, 274, 279, 280, 281, 282, 424, 425, 426, 427, 434, 435, 438, 452, 463, 466,
    ),
}  # fmt: skip
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_PRLIMIT, _TGKILL = {"x86_64": 302, "aarch64": 261}, {"x86_64": 234, "aarch64": 131}
"""Allowed for the process itself: limits are read so, and ``abort`` ends it so."""


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 without it."""
    if sys.platform != "linux":
        return 0
    found: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)
    return max(found, 0)


def has_seccomp() -> bool:
    """Return whether system calls can be filtered on this machine."""
    if sys.platform != "linux" or platform.machine() not in _DENIED:
        return False
    try:
        with open("/proc/self/status") as status:
            return any(line.startswith("Seccomp:") for line in status)
    except OSError:
        return False


def main() -> None:
    task = json.loads(sys.argv[1])
    out = os.dup(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # what a parser prints is no result
    _limit(task)
    done = {"landlock": 0, "seccomp": False}
    if sys.platform == "linux":
        done = _lock_in(task)
    _write(out, json.dumps(done).encode() + b"\n")
    _write(out, _result(task))
    os._exit(0)


def _limit(task: dict[str, Any]) -> None:
    limits = {
        "RLIMIT_AS": (task["memory"], task["memory"]),
        "RLIMIT_CPU": (task["cpu"], task["cpu"] + 1),
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (64, 64),
        "RLIMIT_NPROC": (0, 0),
    }
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICER)
    for name, values in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), values)


def _lock_in(task: dict[str, Any]) -> dict[str, Any]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != task["parent"]:  # it has died before this was asked for
        os._exit(1)
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities(libc)
    return {"landlock": _landlock(libc, task["readable"]), "seccomp": _seccomp(libc)}


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Root without them is a user whose number is 0."""
    libc.capset(struct.pack("=II", 0x20080522, 0), bytes(24))


def _landlock(libc: ctypes.CDLL, readable: list[str]) -> int:
    version = landlock_version()
    if not version:
        return 0
    # All rights that this version of it can deny: those of files, the network, and signals.
    files = (1 << (13 + sum(version >= since for since in (2, 3, 5)))) - 1
    rights = struct.pack("=QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = libc.syscall(_CREATE_RULESET, rights[:size], size, 0)
    if rules < 0:
        return 0
    for path in readable:
        right = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE
        _add_rule(libc, rules, path, right)
    _add_rule(libc, rules, os.devnull, _READ_FILE | _WRITE_FILE)
    refused: int = libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)
    return 0 if refused else version


def _add_rule(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, opened), 0)
    os.close(opened)


def _seccomp(libc: ctypes.CDLL) -> bool:
    machine = platform.machine()
    if machine not in _DENIED:
        return False
    program = _program(machine, os.getpid())
    code = ctypes.create_string_buffer(program)
    filters = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    return bool(libc.prctl(_SET_SECCOMP, 2, filters, 0, 0) == 0)


def _program(machine: str, pid: int) -> bytes:
    """Return the filter of system calls, in the kernel's own little language."""
    denied = _DENIED[machine]

    def step(code: int, value: int, then: int = 0, other: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, other, value)

    load, equal, above, end = 0x20, 0x15, 0x35, 0x06
    own = [(_PRLIMIT[machine], 0), (_TGKILL[machine], pid)]
    # A list of refused numbers, then those with one allowed first argument, then two verdicts.
    after = len(denied) + 4 * len(own)
    steps = [
        step(load, 4), step(equal, _ARCHITECTURES[machine], 1, 0), step(end, _KILL),
        step(load, 0), step(above, _TOO_NEW, after + 1, 0),
    ]  # fmt: skip
    steps += [step(equal, number, after - place, 0) for place, number in enumerate(denied)]
    for number, allowed in own:
        steps += [
            step(equal, number, 0, 3), step(load, 16), step(equal, allowed, 1, 0),
            step(end, _DENY),
        ]  # fmt: skip
    return b"".join([*steps, step(end, _ALLOW), step(end, _DENY)])


def _result(task: dict[str, Any]) -> bytes:
    try:
        run = _loaded(task).main
    except Exception as error:
        return _told("unloadable", error)
    try:
        value = run(os.fdopen(0, "rb", closefd=False), **task["options"])
        return json.dumps({"status": "ok", "value": value}, allow_nan=False).encode()
    except MemoryError:
        return b'{"status": "oom"}'
    except Exception as error:
        return _told("error", error)


def _told(status: str, error: Exception) -> bytes:
    found = {"status": status, "type": type(error).__name__[:100], "message": str(error)[:500]}
    return json.dumps(found).encode()


def _loaded(task: dict[str, Any]) -> Any:
    """Import the parser; its package is found where the parent has found it, and nowhere else."""
    name, origin, folders = task["package"]
    if name not in sys.modules:
        if origin is None:
            package = ModuleType(name)
            package.__path__ = folders
            sys.modules[name] = package
        else:
            spec = importlib.util.spec_from_file_location(
                name, origin, submodule_search_locations=folders
            )
            if spec is None or spec.loader is None:
                raise ImportError(f"{origin} is no Python module")
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
    return importlib.import_module(task["module"])


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    main()
