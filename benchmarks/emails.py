"""The email gateway: handing emails in over HTTP, and sending them at the provider's pace."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import bench, records
from benchmarks.bench import Bench, manage
from benchmarks.listeners import await_answer
from benchmarks.openloop import drive, request
from benchmarks.processes import ROOT, Processes
from benchmarks.records import Records
from benchmarks.result import Check, Figures, Result, spread
from benchmarks.senders import COMPANIES, email
from benchmarks.stage import free_port

PER_SECOND = 100
LIMIT = 100
"""What the provider takes in a second, whenever that begins."""
PACE = 87
"""Mails per second by the rule of the gateway's handler, which keeps within the limit."""
SERVERS = 2
"""Processes that serve HTTP, as behind a proxy."""
NICE = ["/usr/bin/env", "nice", "-n", "10"]
"""Whoever hands in goes before whoever sends, on a machine that has to do both."""
WORKER = manage(
    *("jobs", "worker", "--queues", "email:send", "--processes", "2", "--concurrency", "5")
)


# ---- handing in


def send(b: Bench) -> Result:
    """100 emails per second over HTTP while workers send them; beside jobs that do nothing.

    Once more while no worker sends any, which is what handing in costs by itself.
    """
    seconds = 3.0 if b.quick else 20.0
    plain = _hand_in(b, PER_SECOND, seconds, _jobs, "/api/v1/jobs", 201)
    ours = _hand_in(b, PER_SECOND, seconds, _emails, "/api/v1/email/send", 202)
    half = _hand_in(b, PER_SECOND / 2, seconds / 2, _emails, "/api/v1/email/send", 202)
    alone = _hand_in(
        b, PER_SECOND, seconds / 2, _emails, "/api/v1/email/send", 202, sending=False
    )  # fmt: skip
    figures = {
        "jobdesk": ours, "jobdesk_half": half, "jobdesk_alone": alone, "jobdesk_enqueue": plain,
    }  # fmt: skip
    ratio = round(ours["p95_ms"] / plain["p95_ms"], 2)
    checks = [
        Check("p95 of POST /email/send", ours["p95_ms"], 50, 25, True, " ms"),
        Check("p95 at half the pace", half["p95_ms"], 50, 25, True, " ms"),
        Check("p95 while nothing is sent", alone["p95_ms"], 25, 15, True, " ms"),
    ]
    return Result(figures, checks, ratio)


def _emails(number: int) -> dict[str, Any]:
    return {"email": email(number)}


def _jobs(number: int) -> dict[str, Any]:
    return {"kind": "bench.noop", "payload": {}}


def _hand_in(
    b: Bench,
    pace: float,
    seconds: float,
    body: Callable[[int], dict[str, Any]],
    path: str,
    expected: int,
    *,
    sending: bool = True,
) -> Figures:
    smtp, webs = free_port(), [free_port() for _ in range(SERVERS)]
    _clear(b, smtp)
    processes, out = b.stage(_variables(smtp))
    keys = [key for _, key in _senders(b, smtp, "keys", COMPANIES)]
    with processes:
        processes.start(
            _mailbox(smtp), *[manage("jobs", "web", str(port)) for port in webs],
            bench.dispatcher(), manage("jobs", "relay"), [*NICE, *bench.worker(1)],
        )  # fmt: skip
        if sending:
            processes.start([*NICE, *WORKER])
        for port in webs:
            await_answer(port)
        await_port(smtp)
        processes.wait_idle()
        b.wait_quiet()

        def ask(number: int) -> bytes:
            key = keys[number % len(keys)]
            return request(path, key, json.dumps(body(number)).encode())

        drive(webs, ask, 20, 1.0, expected)  # everything has been imported
        cpu = processes.cpu_seconds()
        with b.watching() as seen:
            answers = drive(webs, lambda n: ask(n + 20), pace, seconds, expected)
        cpu = processes.cpu_seconds() - cpu
        asked = 20 + int(pace * seconds)
        if answers.wrong:
            wrong = f"{len(answers.wrong)} wrong answers, like {answers.wrong[0]}"
            raise RuntimeError(f"{wrong}\n{b.last_words()}")
        if expected == 202 and sending:
            out.wait_for(asked, 300.0)  # all of them arrive, too
    return {
        "rate": pace,
        **spread(answers.seconds),
        "late_ms": round(1000 * answers.late, 1),
        "cores": round(cpu / seconds, 2),
        **seen,
    }


# ---- sending


def drain(b: Bench) -> Result:
    """Waiting emails, sent at the provider's limit; beside two rq workers without any."""
    size = 300 if b.quick else 2000
    plain = _drain_rq(b, size // 4)
    ours = _drain(b, size)
    ratio = round(ours["rate"] / plain["rate"], 2)
    checks = [
        Check("mails in the fullest second", ours["fullest_second"], LIMIT, None, True),
        Check("x the pace that the gateway keeps", round(ours["rate"] / PACE, 3), 0.95, 0.98),
    ]
    return Result({"jobdesk": ours, "rq_simple": plain}, checks, ratio)


def _drain(b: Bench, size: int) -> Figures:
    smtp = free_port()
    _clear(b, smtp)
    _senders(b, smtp, "backlog", size)
    b.sql("VACUUM ANALYZE jobs_job")
    b.sql("VACUUM ANALYZE emailgw_outbox")
    b.sql("CHECKPOINT")
    processes, out = b.stage(_variables(smtp))
    with processes:
        processes.start(_mailbox(smtp), bench.dispatcher(), manage("jobs", "relay"), WORKER)
        found = _watch(b, processes, out, size)
        _settled(b, size)
    return found


def _drain_rq(b: Bench, size: int) -> Figures:
    """Two rq workers that send the same mail by Django's own backend."""
    from rq import Queue

    smtp = free_port()
    b.reset()
    queue = Queue(bench.QUEUE, connection=b.plain_redis)
    queue.enqueue_many(
        [queue.prepare_data("benchmarks.plain.mail", (smtp, n)) for n in range(size)]
    )
    processes, out = b.stage()
    with processes:
        processes.start(_mailbox(smtp))
        await_port(smtp)
        processes.start(*[bench.rq_worker(b)] * 2)
        found = _watch(b, processes, out, size)
    b.plain_redis.flushdb()
    return found


def _watch(b: Bench, processes: Processes, out: Records, size: int) -> Figures:
    out.wait_for(1)
    began, cpu = time.monotonic(), processes.cpu_seconds()
    with b.watching() as seen:
        out.wait_for(size, 60.0 + size / 20)
    wall, cpu = time.monotonic() - began, processes.cpu_seconds() - cpu
    taken = [moment for _, moment in out.times(records.TAKEN)]
    if len(taken) != size:
        raise RuntimeError(f"{len(taken)} mails arrived, of {size}")
    skipped = size // 20
    return {
        "rate": round((size - 1 - skipped) / (taken[-1] - taken[skipped]), 1),
        "fullest_second": fullest_second(taken),
        "jobs": size,
        "cores": round(cpu / wall, 2),
        **seen,
    }


def fullest_second(moments: Sequence[float]) -> int:
    """The most that happened within any second; the moments are in order."""
    return max(bisect_right(moments, at + 1) - place for place, at in enumerate(moments))


def _settled(b: Bench, size: int, patience: float = 15.0) -> None:
    deadline = time.monotonic() + patience
    while (sent := b.sql("SELECT count(*) FROM emailgw_outbox WHERE status = 'SENT'")) != size:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{size} mails arrived, but {sent} rows say so\n{b.last_words()}")
        time.sleep(0.05)


# ---- the stage


def _variables(smtp: int) -> dict[str, str]:
    return {"BENCH_EMAIL": "1", "SMTP_URL": f"smtp://127.0.0.1:{smtp}", "HTTPS": "off"}


def _mailbox(smtp: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.mailbox", str(smtp)]


def _clear(b: Bench, smtp: int) -> None:
    """The tables of the gateway are there, and empty like the others."""
    _run(b, smtp, *manage("migrate", "--verbosity", "0"))
    b.reset()
    b.sql("TRUNCATE emailgw_company, jobs_breaker, jobs_apikey CASCADE")


def _senders(b: Bench, smtp: int, what: str, count: int) -> list[list[str]]:
    said = _run(b, smtp, sys.executable, "-m", "benchmarks.senders", what, str(count))
    made: list[list[str]] = json.loads(said)
    return made


def _run(b: Bench, smtp: int, *command: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**b.environment, **_variables(smtp)}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:4])} failed\n{done.stderr[-2000:]}")
    return done.stdout


def await_port(port: int) -> None:
    """Somebody listens to the port."""
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise RuntimeError(f"nobody listens to port {port}") from None
            time.sleep(0.05)
