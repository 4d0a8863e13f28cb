"""Start management commands by forking a process that has imported what they need already.

Importing takes most of the seconds that a command needs before it begins. A server has imported
the libraries alone, so that its processes may have any settings, or the whole project with the
settings of its own environment, which its processes then share.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tests.architecture.sources import OURS

CHECKOUT = Path(__file__).resolve().parents[2]


class Forked:
    """A process of the fork server; offers what is used of ``subprocess.Popen``."""

    stdin: IO[str] | None = None
    stdout: IO[str] | None = None

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._code: int | None = None

    def poll(self) -> int | None:
        with self._server.lock:
            if self._code is None:
                self._code = self._server.ask({"reap": self.pid})
            return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            # The process stays a zombie until it is reaped: its pid is not another's yet.
            handle = os.pidfd_open(self.pid)
            try:
                ended, _, _ = select.select([handle], [], [], timeout)
            finally:
                os.close(handle)
            if not ended:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """The side of the tests."""

    def __init__(self, env: dict[str, str], libraries: Sequence[str] = ()) -> None:
        """Start a process that imports the libraries, or without any the whole project."""
        self.lock = threading.RLock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=CHECKOUT,
                env=env,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._answers = self._socket.makefile("r")
        names: list[str] = self.ask({"import": list(libraries)})
        self.libraries = [n for n in names if n.partition(".")[0] not in {*OURS, "tests"}]

    def start(self, arguments: Sequence[str], env: dict[str, str], log: Path) -> Forked:
        """Run a script of the checkout in a session of its own, with its output in the log."""
        request = {"arguments": list(arguments), "env": env, "log": str(log)}
        return Forked(self, self.ask(request))

    def ask(self, request: dict[str, Any]) -> Any:
        with self.lock:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(self._answers.readline())

    def stop(self) -> None:
        self._socket.close()
        self._answers.close()
        self._process.wait()


def serve(line: socket.socket) -> str:
    """Answer requests; return only in a forked process, the script that it is to run."""
    with line, line.makefile("rw") as requests:
        for text in requests:
            request = json.loads(text)
            answer: Any
            if "import" in request:
                import_all(request["import"])
                answer = list(sys.modules)
            elif "reap" in request:
                pid, status = os.waitpid(request["reap"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if pid else None
            else:
                answer = os.fork()
                if answer == 0:
                    break
            requests.write(json.dumps(answer) + "\n")
            requests.flush()
        else:
            sys.exit()
    return become(request)


def become(request: dict[str, Any]) -> str:
    """Become what ``Popen`` would have started."""
    os.setsid()
    os.environ.clear()
    os.environ.update(request["env"])
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    sys.argv = request["arguments"]
    return sys.argv[0]


def import_all(libraries: Sequence[str]) -> None:
    if libraries:
        # Without settings, for they are those of whoever is forked.
        del os.environ["DJANGO_SETTINGS_MODULE"]
        broken: tuple[str, ...] = ()
        for name in libraries:
            if not name.startswith(broken):
                try:
                    importlib.import_module(name)
                except Exception:
                    # A package that wants settings is left to whoever is forked, all of it: its
                    # submodules would not become attributes of it a second time.
                    broken += (f"{name}.",)
                    for half in [n for n in sys.modules if n.startswith(f"{name}.")]:
                        del sys.modules[half]
    else:
        import_project()
    assert threading.active_count() == 1, "a fork would lose the other threads"
    gc.collect()
    gc.freeze()


def import_project() -> None:
    """Import what a management command does, with the settings of the environment."""
    import django
    from django.conf import settings

    django.setup()
    for name in (settings.ROOT_URLCONF, "jobs.management.commands.jobs", "jobs.engine.worker"):
        importlib.import_module(name)


if __name__ == "__main__":
    runpy.run_path(serve(socket.socket(fileno=int(sys.argv[1]))), run_name="__main__")
