"""One server process: its folder, its life, its log."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

from config.embedded import places, processes
from config.embedded.errors import EmbeddedError

LAUNCH = Path(__file__).with_name("launch.py")
LOG_LIMIT = 10 * 1024 * 1024


class Server(ABC):
    """A server on unix sockets, a child of this process, with all its files below ``folder``.

    The server ends with the process that started it (on Linux, when started from the main
    thread, even after SIGKILL). ``start`` clears away what an earlier, crashed owner left.
    """

    name: ClassVar[str]
    polite: ClassVar[signal.Signals]

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        asked = Path(folder).absolute()
        self.folder = places.home(asked.parent.resolve() / asked.name)
        self.sockets = places.sockets(self.folder) / self.name
        self.data = self.folder / "data"
        self.log = self.folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EmbeddedError(f"{self.name} in {self.folder} is not running")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """The server answers at ``url``."""
        if self.alive:
            raise EmbeddedError(f"{self.name} in {self.folder} already runs")
        self._reap()
        places.own_folder(self.folder)
        self._take_lock()
        try:
            places.own_folder(self.sockets.parent)
            places.server_folder(self.sockets)
            self._prepare()
            self._launch_until_ready()
        except BaseException:
            self.kill()
            self._clear_sockets()
            self._release_lock()
            raise

    def kill(self) -> None:
        """The server is gone at once, as in a crash; its files stay as they were."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def remove(self) -> None:
        """The server is gone and so are all its files."""
        self.kill()
        if self.folder.exists():
            self._take_lock()
            self._clear_sockets()
            shutil.rmtree(self.folder, ignore_errors=True)
            self._release_lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self.polite)

    @abstractmethod
    def _prepare(self) -> None: ...

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _ready(self) -> bool: ...

    def _end(self, number: signal.Signals, patience: float = 30) -> None:
        """The server has ended upon ``number``, and its sockets are cleared away."""
        if self._process is not None:
            processes.send(self._process.pid, number)
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reap()
        self._clear_sockets()
        self._release_lock()

    def _clear_sockets(self) -> None:
        shutil.rmtree(self.sockets.parent, ignore_errors=True)

    def _launch_until_ready(self, patience: float = 30) -> None:
        deadline = time.monotonic() + patience
        self._launch()
        while not self._ready():
            if not self.alive:
                # After a crash its last children may hold the old shared memory for a moment.
                if "still in use" in self._last_words() and time.monotonic() < deadline:
                    self._reap()
                    time.sleep(0.1)
                    self._launch()
                    continue
                raise EmbeddedError(f"{self.name} did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"{self.name} did not start in {patience:.0f} s: see {self.log}"
                )
            time.sleep(0.005)

    def _launch(self) -> None:
        with self._open_log() as log:
            self._process = self.spawn(self._command(), log.fileno())

    def spawn(self, command: list[str], log: int) -> subprocess.Popen[bytes]:
        user = places.server_user()
        # The kernel sends the death signal when the starting *thread* ends.
        main = threading.current_thread() is threading.main_thread()
        bond = [os.getpid(), int(self.polite) if main else 0, user.uid, user.gid]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCH), *map(str, bond), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,
        )

    def _open_log(self) -> BinaryIO:
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.rename(self.log.with_suffix(".log.1"))
        return self.log.open("ab")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-20:]
        telling = [line for line in lines if "FATAL" in line or "PANIC" in line]
        return f"{(telling or lines or ['no output'])[-1].strip()} (see {self.log})"

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise EmbeddedError(f"{self.folder} is in use by another process") from None
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
