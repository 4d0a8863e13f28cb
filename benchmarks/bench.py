"""The stage of every workload: private servers, Django on them, clean tables for each run."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import redis

from benchmarks import records
from benchmarks.processes import ROOT, Processes, cpu_seconds
from benchmarks.records import Records
from benchmarks.servers import TcpPostgres, TcpValkey
from config.embedded import Postgres, Valkey

QUEUE = "default"
QUIET = 0.3
"""Cores used by strangers above which a run counts as disturbed."""
TABLES = [
    *("jobs_job", "jobs_attempt", "jobs_deadletter", "jobs_lease", "jobs_queue"),
    *("jobs_outbox", "jobs_feed", "jobs_feed_head", "jobs_search"),
    *("jobs_batch", "jobs_dependency", "jobs_key", "jobs_slot", "jobs_limiter", "jobs_effect"),
    "jobs_bulk",
]
"""What a run leaves behind."""
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
WITH_LIMITS = {"BENCH_LIMITS": "1"}
"""The processes know the kinds that have limits."""
LASTING = Path("/var/tmp")  # noqa: S108 - mkdtemp makes a folder of our own in it


class Bench:
    """What a workload is given."""

    def __init__(self, folder: Path, postgres: Postgres, valkey: Valkey, quick: bool) -> None:
        self.folder, self.postgres, self.valkey, self.quick = folder, postgres, valkey, quick
        # The engine has database 0, the plain rq of the baselines database 1.
        self.redis_urls = (valkey.url, valkey.url.replace("?db=0", "?db=1"))
        self.redis: redis.Redis = redis.Redis.from_url(valkey.url)
        self.plain_redis: redis.Redis = redis.Redis.from_url(self.redis_urls[1])
        self.environment = {
            **os.environ,
            "DATABASE_URL": postgres.url,
            "REDIS_URL": valkey.url,
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "SECRET_KEY": "only for measuring",
            "PYTHONPATH": str(ROOT),
        }
        self._runs = 0
        self.fsync_ms = 0.0

    # ---- one run

    def reset(self) -> None:
        """Both stores are empty and written out."""
        self.redis.flushall()
        self.sql(f"TRUNCATE {', '.join(TABLES)} CASCADE")
        self.sql("CHECKPOINT")

    def stage(self, variables: Mapping[str, str] = NO_VARIABLES) -> tuple[Processes, Records]:
        """Processes for the next run, and the file into which their jobs write.

        The processes see the variables in their environment.
        """
        self._runs += 1
        out = Records(self.folder / f"run-{self._runs}.bin")
        environment = {**self.environment, **variables, records.VARIABLE: str(out.path)}
        return Processes(environment, self.folder / "processes.log"), out

    def sql(self, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        """The first value that the statement returns, if any."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    def last_words(self) -> str:
        """The end of what the processes printed."""
        log = self.folder / "processes.log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    # ---- who uses the machine

    @contextmanager
    def watching(self, processes: Processes | None = None) -> Iterator[dict[str, float]]:
        """Fills in how many cores strangers used meanwhile."""
        seen: dict[str, float] = {}
        began, busy, ours = time.monotonic(), _busy_seconds(), self._our_seconds(processes)
        yield seen
        others = (_busy_seconds() - busy) - (self._our_seconds(processes) - ours)
        seen["others_cores"] = round(max(0.0, others) / (time.monotonic() - began), 2)

    def wait_quiet(self, patience: float = 5.0) -> None:
        """Strangers leave the machine alone, or have not done so for ``patience`` seconds."""
        deadline = time.monotonic() + (0.0 if self.quick else patience)
        while time.monotonic() < deadline:
            with self.watching() as seen:
                time.sleep(0.5)
            if seen["others_cores"] < QUIET:
                return

    def _our_seconds(self, processes: Processes | None) -> float:
        ours = cpu_seconds(psutil.Process())
        for pid in (self.postgres.pid, self.valkey.pid):
            server = psutil.Process(pid)
            ours += sum(map(cpu_seconds, [server, *server.children()]))
        return ours + (processes.cpu_seconds() if processes else 0.0)


def _busy_seconds() -> float:
    t = psutil.cpu_times()
    extra = getattr(t, "nice", 0.0) + getattr(t, "irq", 0.0) + getattr(t, "softirq", 0.0)
    return float(t.user + t.system + extra)


@contextmanager
def opened(quick: bool) -> Iterator[Bench]:
    """A bench on servers of its own, with the tables made; nothing of it stays behind."""
    base = Path(
        tempfile.mkdtemp(prefix="jobdesk-bench-", dir=LASTING if LASTING.is_dir() else None)
    )
    postgres, valkey = TcpPostgres(base / "postgres"), TcpValkey(base / "valkey")
    try:
        with postgres, valkey:
            bench = Bench(base, postgres, valkey, quick)
            bench.fsync_ms = fsync_ms(postgres.folder)
            _set_up_django(bench)
            yield bench
            _close_connections()
    finally:
        for server in (postgres, valkey):
            server.remove()
        shutil.rmtree(base, ignore_errors=True)


def _set_up_django(bench: Bench) -> None:
    os.environ.update(bench.environment)
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


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


def manage(*arguments: str) -> list[str]:
    """A command line of this project."""
    return [sys.executable, "manage.py", *arguments]


def worker(processes: int = 2, concurrency: int = 8) -> list[str]:
    """One worker with so many executors."""
    sizes = ["--processes", str(processes), "--concurrency", str(concurrency)]
    return manage("jobs", "worker", "--queues", QUEUE, *sizes)


def dispatcher() -> list[str]:
    return manage("jobs", "dispatch")


def rq_worker(bench: Bench, worker_class: str = "rq.worker.SimpleWorker") -> list[str]:
    """One plain rq worker."""
    options = ["--url", bench.redis_urls[1], "--quiet", "--path", str(ROOT), "-w", worker_class]
    return [sys.executable, "-m", "rq.cli", "worker", *options, QUEUE]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(server: subprocess.Popen[bytes]) -> None:
    """The server is gone: it was asked to, and made to where it does not."""
    server.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(10)
    server.kill()
    server.wait()
