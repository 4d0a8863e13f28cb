"""A fleet: private servers, and the processes of a test that work on them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg
import redis

from config.embedded import private_postgres, private_redis
from jobs.engine import marks
from tests.architecture.sources import DOMAIN_APPS
from tests.integration import begun, checks
from tests.integration.forkserver import Forked, ForkServer
from tests.wait import PATIENCE, wait_until

CHECKOUT = Path(__file__).resolve().parents[2]
QUICK = {"LEASE": 2.0, "HEARTBEAT": 0.5, "DRAIN": 5.0}
"""Settings of a fleet that need not wait long for anything."""
FINAL = "('succeeded', 'failed', 'cancelled', 'expired')"
TABLES = (
    "jobs_job, jobs_lease, jobs_queue, jobs_schedule, jobs_batch, jobs_dependency, jobs_key, "
    "jobs_slot, jobs_limiter, jobs_meter, jobs_pause, jobs_closure, jobs_outbox, jobs_feed, "
    "jobs_feed_head, jobs_worker, jobs_bulk, jobs_cause, jobs_causeseen, jobs_webhook, "
    "jobs_webhookdelivery, jobs_search, jobs_apikey, jobs_savedview, jobs_metric, effects"
)
"""All that a test may leave behind."""
OURS = "(application_name = 'jobdesk' OR starts_with(application_name, 'jobs:'))"
"""The connections of the fleet's processes."""
Row = tuple[Any, ...]
Wanted = tuple[str, dict[str, Any], dict[str, Any]]


class Program:
    """A process of the fleet, with its log."""

    def __init__(self, name: str, process: subprocess.Popen[str] | Forked, log: Path) -> None:
        self.name, self.log, self._process = name, log, process
        self._seen: set[psutil.Process] = set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def family(self) -> list[psutil.Process]:
        """The living processes that it has forked, and theirs, also those it left behind."""
        with suppress(psutil.NoSuchProcess):
            self._seen.update(psutil.Process(self.pid).children(recursive=True))
        return [child for child in self._seen if is_alive(child)]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL for the parent alone; what becomes of the family is its own affair."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Nothing of it runs, until somebody sends SIGCONT."""
        family = self.family()
        self.send(signal.SIGSTOP)
        for child in family:
            with suppress(psutil.NoSuchProcess):
                child.suspend()

    def proceed(self) -> None:
        """All of it goes on, the children first."""
        for child in self.family():
            with suppress(psutil.NoSuchProcess):
                child.resume()
        with suppress(ProcessLookupError):
            self.send(signal.SIGCONT)

    def ended(self, timeout: float = PATIENCE) -> int:
        """Its exit code."""
        return self._process.wait(timeout)

    def end(self) -> None:
        """Nothing of it is left."""
        family = self.family()
        if self.alive:
            self.kill()
        for child in family:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        wait_until(lambda: not any(map(is_alive, family)), interval=0.005)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def ask(self, line: str) -> str:
        """The answer to one line on its standard input."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def logged(self) -> str:
        return self.log.read_text(errors="replace")


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class ClientError(Exception):
    """The client's call raised; the text says what."""


class Fleet:
    """Servers for a test session; processes for one test at a time."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jobdesk-fleet-")).resolve()
        self.folder.chmod(0o711)
        self.begun = self.folder / "begun"
        # A crash of a server loses nothing that the kernel has been given: no need to fsync.
        tuned = {"fsync": "off", "shared_buffers": "32MB"}
        self.postgres = private_postgres(self.folder / "pg", tuned)
        self.valkey = private_redis(self.folder / "vk")
        self.programs: list[Program] = []
        self._forks: tuple[ForkServer, ForkServer] | None = None
        self._client: Program | None = None
        self._connection: psycopg.Connection[Row] | None = None
        self._options: dict[str, str] = {}
        self._count = 0

    # ---- servers

    def start(self) -> None:
        """Both servers run and the tables exist."""
        self.postgres.start()
        self.valkey.start()
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity=0"],
            cwd=CHECKOUT,
            env=self._environment({}, {"FLEET_APPS": ",".join(DOMAIN_APPS)}),
            check=True,
        )
        self.query(checks.EFFECTS)

    def stop(self) -> None:
        """Nothing is left of servers, processes and files."""
        self.end_programs()
        self._end_client()
        self.forget_connection()
        for server in self._forks or ():
            server.stop()
        self.postgres.remove()
        self.valkey.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def reset(self) -> None:
        """As after ``start``: no process, no job, nothing in Redis."""
        self.end_programs()
        shutil.rmtree(self.begun, ignore_errors=True)
        self.begun.mkdir()
        for server in (self.postgres, self.valkey):
            if not server.alive:
                server.start()
        self.query(f"TRUNCATE {TABLES} CASCADE")
        self.redis.flushall()

    @property
    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.valkey.url)

    def key(self, *parts: str) -> str:
        """A key in Redis that belongs to the fleet's database."""
        return ":".join(("jobs", marks.ask(self.query), *parts))

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """The rows of a statement, on a connection that lives as long as the server lets it."""
        try:
            return self._query(statement, parameters)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            self.forget_connection()
            return self._query(statement, parameters)

    def _query(self, statement: str, parameters: Sequence[Any]) -> list[Row]:
        if self._connection is None:
            self._connection = psycopg.connect(
                self.postgres.direct_url, autocommit=True, application_name="observer"
            )
        # No parameters, no placeholders: the statement may then hold a per cent sign.
        cursor = self._connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        [(found,)] = self.query(statement, parameters)
        return found

    def forget_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def backends(self) -> int:
        """How many connections the fleet has to PostgreSQL."""
        count = f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}"  # noqa: S608 - a constant
        return int(self.value(count))

    def terminate_backends(self) -> int:
        """Every connection of the fleet to PostgreSQL is broken; answers how many there were."""
        return len(
            self.query(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}")  # noqa: S608 - a constant
        )

    # ---- processes

    def worker(self, *arguments: str, **options: Any) -> Program:
        """A worker that has opened its leases; with 1 executor unless told otherwise."""
        if not any(a.startswith("--processes") for a in arguments):
            arguments = (*arguments, "--processes=1")
        name = f"w{self._count}"
        program = self.manage(name, "jobs", "worker", f"--name={name}", *arguments, **options)
        if not options.get("unready"):
            wait_until(lambda: self.executors(program), message=f"{name} opened a lease")
        return program

    def dispatcher(self, **options: Any) -> Program:
        name = f"d{self._count}"
        return self.manage(name, "jobs", "dispatch", f"--name={name}", **options)

    @contextmanager
    def connecting(self, options: str) -> Iterator[None]:
        """Give all processes that begin meanwhile these options of a session."""
        self._end_client()
        self._options = {"PGOPTIONS": options}
        try:
            yield
        finally:
            self._end_client()
            self._options = {}

    def manage(
        self,
        name: str,
        *arguments: str,
        jobs: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        unready: bool = False,
    ) -> Program:
        """A management command with JOBS settings and environment of its own."""
        return self.program(name, "manage.py", *arguments, jobs=jobs, env=env)

    def program(
        self,
        name: str,
        *arguments: str,
        jobs: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
    ) -> Program:
        """Run a script with these arguments, and JOBS settings and environment of its own."""
        self._count += 1
        full = self._environment({**QUICK, **(jobs or {})}, env)
        log = self.folder / f"{name}.log"
        log.touch()  # the process opens it a moment later than it may be read
        program = Program(name, self._fork(arguments, full, log), log)
        self.programs.append(program)
        return program

    def _fork(self, arguments: Sequence[str], env: dict[str, str], log: Path) -> Forked:
        """A process; most have the usual environment, and find the whole project imported."""
        usual = self._environment(QUICK)
        if self._forks is None:
            loaded = ForkServer(usual)
            self._forks = loaded, ForkServer(usual, loaded.libraries)
        return self._forks[env != usual].start(arguments, env, log)

    def executors(self, program: Program) -> list[int]:
        """The pids of the living executors of a worker."""
        found = self.query(
            "SELECT pid FROM jobs_lease WHERE worker = %s AND dead_at IS NULL AND NOT draining "
            "ORDER BY started_at",
            [program.name],
        )
        return [pid for (pid,) in found]

    def end_programs(self) -> None:
        for program in self.programs:
            program.end()
        self.programs.clear()

    def log_tails(self, lines: int = 25) -> str:
        """What each process has said lately."""
        parts = []
        for program in self.programs:
            tail = program.logged().splitlines()[-lines:]
            parts.append("\n".join((f"---- {program.name} (pid {program.pid})", *tail)))
        return "\n".join(parts)

    def _environment(
        self, jobs: dict[str, Any], env: dict[str, str] | None = None
    ) -> dict[str, str]:
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("FLEET_")},
            "DJANGO_SETTINGS_MODULE": "tests.integration.settings",
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": self.valkey.url,
            "SECRET_KEY": "of-a-fleet",
            "DEBUG": "off",
            "FLEET_JOBS": json.dumps(jobs),
            begun.FOLDER: str(self.begun),
            **self._options,
            **(env or {}),
        }

    # ---- jobs

    def enqueue(self, kind: str, payload: dict[str, Any] | None = None, **options: Any) -> UUID:
        """The id of a new job; raises ClientError where the enqueue raised."""
        return self.enqueue_all([(kind, payload or {}, options)])[0]

    def enqueue_all(self, wanted: Iterable[Wanted]) -> list[UUID]:
        """The ids of new jobs that were enqueued in one go."""
        return [UUID(job_id) for job_id in self._ask(list(wanted))]

    def cancel(self, job_id: UUID, **options: Any) -> None:
        """Somebody cancels the job; raises ClientError where that is refused."""
        self._ask({"cancel": str(job_id), "options": {"by": "somebody", **options}})

    def bulk(self, action: str, query: str, **care: Any) -> UUID:
        """The id of a bulk operation that somebody has begun."""
        return UUID(self._ask({"bulk": action, "query": query, "care": care})[0])

    def abort_bulk(self, bulk_id: UUID) -> None:
        """Somebody aborts the bulk operation."""
        self._ask({"abort": str(bulk_id)})

    def violations(self) -> list[str]:
        """What the doctor and the checks find wrong; empty when all is well."""
        return [*checks.violations(self.query), *self._ask("doctor")]

    def _ask(self, request: list[Wanted] | dict[str, Any] | str) -> list[str]:
        if self._client is None or not self._client.alive:
            self._end_client()
            self._client = self._start_client()
        line = self._client.ask(json.dumps(request))
        answer: Any = json.loads(line) if line else {"error": self._client.logged()[-2000:]}
        if "error" in answer:
            raise ClientError(answer["error"])
        return list(answer["answer"])

    def _start_client(self) -> Program:
        log = self.folder / "client.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.client"],
                cwd=CHECKOUT,
                env=self._environment(QUICK),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        return Program("client", process, log)

    def _end_client(self) -> None:
        if self._client is not None:
            self._client.end()
            self._client = None

    def state(self, job_id: UUID) -> str:
        return str(self.value("SELECT state FROM jobs_job WHERE id = %s", [job_id]))

    def numbers(self, job_id: UUID) -> dict[str, int]:
        """Attempts, failures, crashes and releases of a job."""
        names = ("attempt", "failures", "crashes", "releases")
        [found] = self.query(f"SELECT {', '.join(names)} FROM jobs_job WHERE id = %s", [job_id])  # noqa: S608
        return dict(zip(names, found, strict=True))

    def await_state(self, job_id: UUID, state: str, timeout: float = PATIENCE) -> None:
        wait_until(
            lambda: self.state(job_id) == state,
            timeout,
            message=f"job {job_id} is {state}, not {self.state(job_id)}",
        )

    def await_final(self, timeout: float = PATIENCE) -> None:
        """Every job has come to an end."""
        wait_until(
            lambda: not self.unfinished(), timeout, 0.05, message="every job has come to an end"
        )

    def unfinished(self) -> int:
        return int(self.value(f"SELECT count(*) FROM jobs_job WHERE state NOT IN {FINAL}"))  # noqa: S608

    def states(self) -> dict[str, int]:
        return dict(self.query("SELECT state, count(*) FROM jobs_job GROUP BY state"))

    def running(self, job_id: UUID) -> int:
        """The pid of the executor that holds the job, once its handler has begun."""
        return wait_until(lambda: self._executor(job_id), message=f"job {job_id} runs")

    def _executor(self, job_id: UUID) -> int:
        found = self.query(
            "SELECT l.pid, j.attempt FROM jobs_job j JOIN jobs_lease l ON l.owner = j.owner "
            "WHERE j.id = %s AND j.state = 'running'",
            [job_id],
        )
        has_begun = found and begun.note(self.begun, job_id, found[0][1]).exists()
        return int(found[0][0]) if has_begun else 0
