"""A table with a past: a million finished rows must slow neither claim nor dispatch.

The rows are copies of jobs that really ran here. The rate is measured first; then, in a further
drain, PostgreSQL logs how long it took for each statement of the engine (parse, bind and execute
together). The commit is not part of that; ``fsync`` says what one costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from benchmarks.bench import Bench
from benchmarks.drains import drain_engine, quietest
from benchmarks.result import Check, Figures, Result, quantile

# What tells a statement of the engine from the others.
STATEMENTS = {"dispatch": "jobs_dispatch(", "claim": "jobs_claim("}


def finished(b: Bench) -> Result:
    """100 000 jobs wait behind a million that have finished."""
    backlog, copies, window = (1000, 9, 3.0) if b.quick else (100_000, 9, 30.0)
    empty = quietest(b, lambda: drain_engine(b, backlog, window))
    age(b, copies)
    aged = quietest(b, lambda: drain_engine(b, backlog, window, reset=False))
    aged["finished_rows"] = b.sql("SELECT count(*) FROM jobs_job WHERE state = 'succeeded'")
    with logged(b) as log_starts_at:
        drain_engine(b, backlog, 5.0, reset=False)
    durations = durations_of(b, log_starts_at, STATEMENTS)
    aged |= durations
    checks = [
        Check(f"{name} statement p99", durations[f"{name}_p99_ms"], 20, 5, True, unit=" ms")
        for name in STATEMENTS
    ]
    ratio = round(aged["rate"] / empty["rate"], 2)
    checks.append(Check("x rate on an empty table", ratio, 0.8, 0.95))
    return Result({"jobdesk": aged, "jobdesk_empty": empty}, checks, ratio)


def durations_of(b: Bench, log_starts_at: int, marks: Mapping[str, str]) -> Figures:
    """How long each of the statements took, by PostgreSQL's log from there on."""
    with b.postgres.log.open(errors="replace") as log:
        log.seek(log_starts_at)
        durations = statement_durations(log, marks)
    found: Figures = {}
    for name, times in durations.items():
        if not times:
            raise RuntimeError(f"PostgreSQL logged no {name} statement")
        found |= {f"{name}_{key}": value for key, value in _shares(times).items()}
    return found


def _shares(times: list[float]) -> Figures:
    found = {f"p{share:g}_ms": round(quantile(times, share / 100), 3) for share in (50, 95, 99)}
    return {**found, "max_ms": round(max(times), 3), "statements": len(times)}


def age(b: Bench, copies: int, step: str = "1 h") -> None:
    """Each row of the table has so many copies, each a step older, and the planner knows it."""
    columns = b.sql(
        "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = 'jobs_job'"
    )
    older = {"id": "gen_random_uuid()"}
    for name in ("created_at", "run_at", "queued_at", "started_at", "finished_at"):
        older[name] = f"{name} - n * interval '{step}'"
    values = ", ".join(older.get(name, name) for name in columns.split(", "))
    # The guard lets nothing be born finished; a replica's session is not asked.
    b.sql("SET session_replication_role = replica")
    b.sql(
        f"INSERT INTO jobs_job ({columns}) SELECT {values} "  # noqa: S608 - names of columns
        f"FROM jobs_job, generate_series(1, {copies}) n"
    )
    b.sql("RESET session_replication_role")
    b.sql("VACUUM ANALYZE jobs_job")
    b.sql("CHECKPOINT")


@contextmanager
def logged(b: Bench) -> Iterator[int]:
    """PostgreSQL logs every statement with its duration; the value is where that begins."""
    b.sql("ALTER SYSTEM SET log_parameter_max_length = 0")
    b.sql("ALTER SYSTEM SET log_min_duration_statement = 0")
    starts_at = b.postgres.log.stat().st_size
    b.sql("SELECT pg_reload_conf()")
    try:
        yield starts_at
    finally:
        b.sql("ALTER SYSTEM RESET ALL")
        b.sql("SELECT pg_reload_conf()")


_ENTRY = re.compile(
    r"^\S+ \S+ \S+ \[(?P<pid>\d+)\].* LOG:  duration: (?P<ms>[\d.]+) ms"
    r"(?:  (?P<step>parse|bind|execute|statement)\b(?P<text>.*))?"
)


def statement_durations(
    lines: Iterable[str], marks: Mapping[str, str] = STATEMENTS
) -> dict[str, list[float]]:
    """Milliseconds of each of the engine's statements, from PostgreSQL's log."""
    found: dict[str, list[float]] = {name: [] for name in marks}
    so_far: dict[str, float] = {}
    for pid, milliseconds, step, text in _entries(lines):
        if step in ("parse", "statement"):
            so_far[pid] = 0.0
        so_far[pid] = so_far.get(pid, 0.0) + milliseconds
        if step in ("execute", "statement"):
            for name, mark in marks.items():
                if mark in text:
                    found[name].append(so_far[pid])
    return found


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, float, str, str]]:
    """The log's entries about durations, their continuation lines joined."""
    entry: re.Match[str] | None = None
    text: list[str] = []
    for line in lines:
        if line.startswith("\t"):
            text.append(line)
            continue
        if entry is not None:
            yield entry["pid"], float(entry["ms"]), entry["step"] or "", "".join(text)
        entry = _ENTRY.match(line)
        text = [entry["text"] or ""] if entry else []
    if entry is not None:
        yield entry["pid"], float(entry["ms"]), entry["step"] or "", "".join(text)
