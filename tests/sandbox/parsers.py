"""Parsers that a sandbox runs: one that behaves, and what a hostile file may make of one."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any, BinaryIO


def main(file: BinaryIO, act: str = "words", **options: Any) -> Any:
    return ACTS[act](file, **options)


def words(file: BinaryIO) -> dict[str, Any]:
    print("this is no result")  # noqa: T201
    return {"words": file.read().decode().split()}


def priority(file: BinaryIO) -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def fails(file: BinaryIO) -> None:
    raise ValueError("page 3 is broken")


def echoes(file: BinaryIO, value: Any) -> Any:
    return value


def unstorable(file: BinaryIO) -> list[str]:
    return ["a\0b", "\ud800", "\\u0000"]


def reads(file: BinaryIO, path: str) -> str:
    with open(path) as other:
        return other.read()


def lists(file: BinaryIO, path: str) -> list[str]:
    return os.listdir(path)


def writes(file: BinaryIO, path: str) -> None:
    with open(path, "w") as other:
        other.write("it was here")


def changes_mode(file: BinaryIO, path: str) -> None:
    os.chmod(path, 0o777)  # noqa: S103


def removes(file: BinaryIO, path: str) -> None:
    os.unlink(path)


def truncates(file: BinaryIO) -> None:
    os.truncate(0, 0)


def connects(file: BinaryIO) -> None:
    socket.create_connection(("127.0.0.1", 9))


def forks(file: BinaryIO) -> int:
    return os.fork()


def executes(file: BinaryIO) -> int:
    return subprocess.run(["/bin/true"]).returncode


def kills(file: BinaryIO, pid: int) -> None:
    os.kill(pid, 0)


def sends_thread_signal(file: BinaryIO, pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(234 if os.uname().machine == "x86_64" else 131, pid, pid, 0):
        raise PermissionError(ctypes.get_errno(), "tgkill")


def limits_others(file: BinaryIO, pid: int) -> None:
    import resource

    resource.prlimit(pid, resource.RLIMIT_NOFILE)


def traces(file: BinaryIO, pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, pid, 0, 0) < 0:
        raise PermissionError(ctypes.get_errno(), "ptrace")


def changes_groups(file: BinaryIO) -> None:
    """Do what root may, and nobody without privileges."""
    os.setgroups([])


def environment(file: BinaryIO) -> dict[str, str]:
    return dict(os.environ)


def eats_memory(file: BinaryIO) -> int:
    return len(b"x" * 2**33)


def spins(file: BinaryIO) -> None:
    while True:
        pass


def sleeps(file: BinaryIO) -> None:
    signal.pause()


def huge(file: BinaryIO) -> str:
    return "x" * 20_000_000


def aborts(file: BinaryIO) -> None:
    os.abort()


def segfaults(file: BinaryIO) -> None:
    ctypes.string_at(0)


def ends(file: BinaryIO) -> None:
    os._exit(0)


def says(file: BinaryIO, text: str, times: int = 1) -> None:
    """Write to the pipe itself, whose number is the one that ``dup`` has found first."""
    for number in range(3, 64):
        try:
            for _ in range(times):
                os.write(number, text.encode("latin-1"))
        except OSError:
            continue
    os._exit(0)


def deep(file: BinaryIO) -> None:
    says(file, '{"status":"ok","value":' + "[" * 100_000)


def crowded(file: BinaryIO) -> None:
    says(file, '{"status":"ok","value":[' + "[]," * 300_000 + "[]]}")


def recursion(file: BinaryIO) -> None:
    sys.setrecursionlimit(10**6)

    def again() -> None:
        again()

    again()


ACTS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        priority,
        words, fails, echoes, unstorable, reads, lists, writes, changes_mode, removes, truncates,
        connects, forks, executes, kills, sends_thread_signal, limits_others, traces, environment,
        changes_groups, eats_memory, spins, sleeps, huge, aborts, segfaults, ends, says, deep,
        crowded, recursion,
    )
}  # fmt: skip
