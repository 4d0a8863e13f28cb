"""``manage.py jobs demo``: jobs through everything that can happen to them, on real processes."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
import urllib.request
from argparse import ArgumentParser
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections

from jobs import conf, demo, registry
from jobs.cli.demo_desk import DESK, SIDE_QUEUE, SPARE_QUEUE, AProgram
from jobs.cli.demo_flow import ACTS, QUEUE
from jobs.cli.groups import declared
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb
from jobs.cli.web import address
from jobs.cli.worker import every_queue
from jobs.engine import intake, sql
from jobs.engine.foreman import Foreman, Program, manage
from jobs.errors import ConfigError
from jobs.operate import doctor
from jobs.states import FINAL_STATES, JobState

USER = "demo"
FLOW = f"{QUEUE},{SIDE_QUEUE}"
START_LIMIT = 60.0
RUN_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A job, and what is to become of it."""

    title: str
    kind: str
    payload: dict[str, Any]
    state: JobState
    options: dict[str, Any] = field(default_factory=dict)
    failures: int = 0
    reason: str = ""


SCENES = (
    Scene("succeeds", "example.greet", {"name": "world"}, JobState.SUCCEEDED),
    Scene("shows its progress", "example.report", {"pages": 10}, JobState.SUCCEEDED),
    Scene("is a coroutine", "example.fetch", {"seconds": 0.5}, JobState.SUCCEEDED),
    Scene("is scheduled", "example.greet", {"name": "later"}, JobState.SUCCEEDED, {"delay": 2}),
    Scene("is retried", "example.flaky", {"failures": 2}, JobState.SUCCEEDED, {}, 2),
    Scene("snoozes", "example.impatient", {}, JobState.SUCCEEDED),
    # When nobody is near: it takes with it what runs in the same process.
    Scene("kills its process", "example.crash", {}, JobState.SUCCEEDED, {"delay": 4}),
    Scene("fails for good", "example.broken", {}, JobState.FAILED, {}, 2, "exhausted"),
    Scene("gives up at once", "example.reject", {}, JobState.FAILED, {}, 1, "unrecoverable"),
    Scene("hangs", "example.stuck", {}, JobState.FAILED, {}, 1, "timeout"),
    Scene("is left in doubt", "example.wire", {"euros": 5}, JobState.FAILED, {}, 2, "in_doubt"),
    Scene(
        "comes too late",
        "example.greet",
        {"name": "nobody"},
        JobState.EXPIRED,
        {"delay": 60, "expires": 1},
    ),
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--once", action="store_true", help="end when all is shown; 0 when it went as it should"
    )
    parser.add_argument(
        "--port", default="8000", metavar="PORT", help="of the web server (default: 8000)"
    )


def run(options: Options) -> int:
    where = address(options["port"])
    if not settings.DEBUG:
        raise ConfigError("the demo makes a user whose password it prints: it needs DEBUG=on")
    if registry.find(SCENES[0].kind) is None:
        raise ConfigError("the demo needs its jobs: add 'config.examples' to INSTALLED_APPS")
    call_command("migrate", verbosity=0, interactive=False)
    where = _free(where)
    with _only_one(f"http://{where}"):
        return _Demo(where, options["once"]).run()


@contextmanager
def _only_one(url: str) -> Iterator[None]:
    """Raise ConfigError if another demo, which would take this one's jobs, uses the database."""
    own = connections.create_connection(conf.settings().DATABASE)
    own.settings_dict["OPTIONS"] = {
        **own.settings_dict["OPTIONS"], "application_name": f"{_PROGRAM}{url}",
    }  # fmt: skip
    try:
        with own.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])
            if not cursor.fetchone()[0]:
                cursor.execute(_HOLDER, [f"{_PROGRAM}%", _LOCK])
                there = "".join(f" at {name[len(_PROGRAM) :]}" for (name,) in cursor.fetchall())
                raise ConfigError(f"a demo is running already{there}; end it with Ctrl-C first")
        yield
    finally:
        own.close()


_LOCK = 1684368239
_PROGRAM = "demo of jobs at "
_HOLDER = """
SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE application_name LIKE %s AND locktype = 'advisory' AND objid = %s AND granted
"""


class _Demo:
    """One showing."""

    def __init__(self, where: str, once: bool) -> None:
        self._url = f"http://{where}"
        self._once = once
        self._password = secrets.token_urlsafe(9)
        self._kept: deque[str] = deque(maxlen=200)
        self._ids: list[UUID] = []
        kinds = (*ACTS, *DESK, *demo.of_apps())
        self._acts = [kind(secrets.token_hex(4), self._url) for kind in kinds]
        self._begun: list[demo.Act] = []
        self._began = time.monotonic()
        self._looked = 0.0
        self._code: int | None = None
        self._queues = sorted({queue for act in self._acts for queue in act.queues})
        self._shaky = sorted({tuple(sorted(act.queues)) for act in self._acts if act.kills})
        self._foreman = Foreman(self._programs(where), self._log)

    def _programs(self, where: str) -> list[Program]:
        mixed = ",".join(queue for queue in every_queue() if queue not in self._queues)
        workers = [
            manage("worker", "jobs", "worker", "--concurrency=4", f"--queues={mixed}"),
            manage("worker 2", "jobs", "worker", "--concurrency=8", f"--queues={FLOW}"),
            manage("worker 3", "jobs", "worker", f"--queues={SPARE_QUEUE}"),
        ]
        shaken = {queue for queues in self._shaky for queue in queues}
        steady = [queue for queue in self._queues if queue not in shaken]
        for group in declared().values():
            mine = {queue for queue, _weight in group.queues}
            if mine & set(steady):
                steady = [queue for queue in steady if queue not in mine]
                workers.append(manage(group.name, "jobs", "worker", f"--group={group.name}"))
        for number, queues in enumerate(filter(None, (steady, *self._shaky)), 4):
            some = f"--queues={','.join(queues)}"
            workers.append(manage(f"worker {number}", "jobs", "worker", "--concurrency=4", some))
        return [
            manage("dispatcher", "jobs", "dispatch"), *workers, manage("web", "jobs", "web", where)
        ]  # fmt: skip

    def run(self) -> int:
        _make_user(self._password)
        try:
            for act in self._acts:
                self._begun.append(act)
                os.environ.update(act.prepare())
            self._foreman.run(self._look)
        finally:
            for act in self._begun:
                act.leave()
        if self._code:
            _print("".join(self._kept))
        return self._code or 0

    def _log(self, text: str) -> None:
        self._kept.append(text)
        if not self._once:
            _print(text)

    def _look(self) -> bool:
        """One look at how far the showing is; true when it is over."""
        if self._code is not None or time.monotonic() - self._looked < 0.2:
            return False
        self._looked = time.monotonic()
        if not self._ids:
            return self._begin()
        self._watch()
        if not self._is_over() and self._elapsed() < RUN_LIMIT:
            return False
        self._code = self._sum_up()
        return self._once

    def _begin(self) -> bool:
        if self._elapsed() > START_LIMIT:
            _print("The programs did not start.\n")
            self._code = 1
            return True
        if _all_listen(self._queues) and _answers(f"{self._url}/admin/"):
            self._began = time.monotonic()
            self._enqueue()
        return False

    def _enqueue(self) -> None:
        self._ids = [_enqueue(scene) for scene in SCENES]
        for act in self._acts:
            act.begin()

    def _watch(self) -> None:
        for act in self._acts:
            if told := act.step():
                self._log(f"{told}\n")

    def _is_over(self) -> bool:
        over = len(self._finals()) == len(self._ids)
        return over and all(act.is_over() for act in self._acts)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _finals(self) -> list[Any]:
        states = [str(state) for state in FINAL_STATES]
        return sql.rows(
            "SELECT id FROM jobs_job WHERE id = ANY(%s) AND state = ANY(%s)", [self._ids, states]
        )

    def _sum_up(self) -> int:
        """The table of what happened; 0 when it is what was to happen."""
        found = {job_id: rest for job_id, *rest in sql.rows(_ENDS, [self._ids])}
        lines: list[tuple[str, ...]] = []
        wrong = 0
        for scene, job_id in zip(SCENES, self._ids, strict=True):
            state, failures, attempts, reason, letters = found[job_id]
            wanted = (str(scene.state), scene.failures, scene.reason)
            good = (state, failures, reason) == wanted
            good &= letters == (scene.state is JobState.FAILED)
            wrong += not good
            after = f"{attempts} attempt{'' if attempts == 1 else 's'}"
            verdict = "as it should" if good else f"NOT {wanted}"
            end = f"{state} ({reason})" if reason else state
            lines.append((f"a job that {scene.title}", end, after, verdict))
        for act in self._acts:
            good, end, seen = act.verdict()
            wrong += not good
            lines.append((act.title, end, seen, "as it should" if good else "NOT as it should"))
        broken = doctor.violations()
        _print("\n" + table(("EXAMPLE", "ENDED", "AFTER", ""), lines))
        _print(f"\n{len(lines) - wrong} of {len(lines)} as they should, in {self._elapsed():.1f} s")
        _print(f"; {len(broken) or 'no'} invariants violated.\n")
        _print("".join(f"{violation}\n" for violation in broken))
        if not self._once:
            self._say_how_to_go_on()
        return 1 if wrong or broken else 0

    def _say_how_to_go_on(self) -> None:
        _print(f"\nAdmin:    {self._url}/admin/\nUser:     {USER}\nPassword: {self._password}\n")
        _print(f"\nAPI:      {self._url}/api/v1/docs\n")
        for program in [act for act in self._acts if isinstance(act, AProgram)]:
            _print(f"Key:      {program.key.text}\n")
            _print(f"          {', '.join(program.key.key.permissions)}; until the demo ends\n")
        _print("\nCtrl-C ends the demo.\n")


_ENDS = """
SELECT id, state, failures, attempt, reason,
  (SELECT count(*) FROM jobs_deadletter d WHERE d.job_id = j.id AND d.state = 'open')
FROM jobs_job j WHERE id = ANY(%s)
"""


def _all_listen(queues: list[str]) -> bool:
    """Whether all workers are there."""
    wanted = [conf.settings().DEFAULT_QUEUE, QUEUE, SIDE_QUEUE, SPARE_QUEUE, *queues]
    [(heard,)] = sql.rows(
        "SELECT count(DISTINCT q) FROM jobs_lease, unnest(queues) AS q "
        "WHERE dead_at IS NULL AND until > jobs_clock() AND q = ANY (%s)",
        [wanted],
    )
    return bool(heard == len(wanted))


def _enqueue(scene: Scene) -> UUID:
    payload = registry.get(scene.kind).payload.build(scene.payload)
    return intake.enqueue(payload, tenant="demo", **scene.options).id


def _make_user(password: str) -> None:
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: USER}).first()
    user = user or model(**{model.USERNAME_FIELD: USER})
    for name in ("is_staff", "is_superuser", "is_active"):
        setattr(user, name, True)
    user.set_password(password)
    user.save()


def _free(where: str) -> str:
    """The address, or another port of this machine where it is taken."""
    host, _, port = where.rpartition(":")
    for candidate in (int(port), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except OSError:
                continue
            return f"{host}:{probe.getsockname()[1]}"
    raise ConfigError(f"cannot listen at {where}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own http URL
            return bool(answer.status == 200)
    except OSError:
        return False


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


VERB = Verb("demo", "show jobs at work, on real processes, with the admin", add_arguments, run)
