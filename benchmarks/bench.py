"""What every workload works with: processes, clean tables, and who else uses the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import psutil
import psycopg
import redis

from benchmarks import records
from benchmarks.processes import ROOT, Processes, cpu_seconds
from benchmarks.records import Records
from benchmarks.stage import Stage

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
OTHERS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
  AND pid <> pg_backend_pid() AND pid <> ALL (%s::int[])
"""
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
WITH_LIMITS = {"BENCH_LIMITS": "1"}
"""The processes know the kinds that have limits."""


class Bench:
    """What a workload is given."""

    def __init__(self, stage: Stage, quick: bool) -> None:
        self.folder, self.postgres, self.quick = stage.folder, stage.postgres, quick
        self.fsync_ms = stage.fsync_ms
        # The engine has database 0, the plain rq of the baselines database 1.
        self.redis_urls = (stage.redis.url, beside(stage.redis.url))
        self.redis: redis.Redis = redis.Redis.from_url(stage.redis.url)
        self.plain_redis: redis.Redis = redis.Redis.from_url(self.redis_urls[1])
        self.environment = {
            **os.environ,
            "DATABASE_URL": stage.postgres.url,
            "REDIS_URL": stage.redis.url,
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "SECRET_KEY": "only for measuring",
            "PYTHONPATH": str(ROOT),
        }
        self._superuser: psycopg.Connection | None = None
        self._servers = (stage.postgres.pid, stage.redis.pid)
        self._staged: list[Processes] = []

    def close(self) -> None:
        if self._superuser is not None:
            self._superuser.close()

    # ---- one run

    def reset(self) -> None:
        """Both stores are empty and written out."""
        self.disconnect_others()
        self.redis.flushall()
        self.sql(f"TRUNCATE {', '.join(TABLES)} CASCADE")
        self.sql("CHECKPOINT")

    def disconnect_others(self, patience: float = 30.0) -> None:
        """End connections of processes that were killed: their statements go on, and hold locks."""
        from django.db import connection

        own = [connection.connection.info.backend_pid] if connection.connection else []
        deadline = time.monotonic() + patience
        while self.sql(OTHERS, (own,)):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"connections of killed processes last longer than {patience:g} s"
                )
            time.sleep(0.01)

    def stage(self, variables: Mapping[str, str] = NO_VARIABLES) -> tuple[Processes, Records]:
        """Processes for the next run, and the file into which their jobs write.

        The processes see the variables in their environment.
        """
        out = Records(self.folder / f"run-{len(self._staged) + 1}.bin")
        environment = {**self.environment, **variables, records.VARIABLE: str(out.path)}
        processes = Processes(environment, self.folder / "processes.log")
        self._staged.append(processes)
        return processes, out

    def sql(self, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        """Run the statement as a superuser; return the first value of the first row, if any."""
        if self._superuser is None:
            self._superuser = psycopg.connect(self.postgres.superuser_url, autocommit=True)
        cursor = self._superuser.execute(statement.encode(), parameters or None)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def last_words(self) -> str:
        """The end of what the processes printed."""
        log = self.folder / "processes.log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    # ---- who uses the machine

    @contextmanager
    def watching(self) -> Iterator[dict[str, float]]:
        """Fill in how many cores other programs used meanwhile."""
        seen: dict[str, float] = {}
        began, busy, ours = time.monotonic(), _busy_seconds(), self._our_seconds()
        yield seen
        others = (_busy_seconds() - busy) - (self._our_seconds() - ours)
        seen["others_cores"] = round(max(0.0, others) / (time.monotonic() - began), 2)

    def wait_quiet(self, patience: float = 5.0) -> None:
        """Strangers leave the machine alone, or have not done so for ``patience`` seconds."""
        deadline = time.monotonic() + (0.0 if self.quick else patience)
        while time.monotonic() < deadline:
            with self.watching() as seen:
                time.sleep(0.5)
            if seen["others_cores"] < QUIET:
                return

    def _our_seconds(self) -> float:
        """Processor time of this process, its descendants and the servers, past ones included."""
        trees = [psutil.Process(), *map(psutil.Process, self._servers)]
        living = {process for tree in trees for process in (tree, *tree.children(recursive=True))}
        ended = sum(processes.ended_seconds for processes in self._staged)
        return ended + sum(map(cpu_seconds, living))


def beside(redis_url: str) -> str:
    """Return the URL of the database with number 1 on the same Redis, given that of number 0."""
    if not redis_url.endswith("/0"):
        raise ValueError(f"{redis_url} does not name database 0")
    return f"{redis_url[:-1]}1"


def _busy_seconds() -> float:
    t = psutil.cpu_times()
    extra = getattr(t, "nice", 0.0) + getattr(t, "irq", 0.0) + getattr(t, "softirq", 0.0)
    return float(t.user + t.system + extra)


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


def end(server: subprocess.Popen[bytes]) -> None:
    """The server is gone: it was asked to, and made to where it does not."""
    server.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(10)
    server.kill()
    server.wait()
