"""What the log and the receivers of ``job_failed`` are told of attempts."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError

import jobs
from jobs import logs, redaction, registry
from jobs.context import Signal
from jobs.engine import leases, reports, runner, settler, sql
from jobs.engine.reports import Report, Reporter
from jobs.ids import uuid7
from jobs.outcomes import Fault, Move
from jobs.signals import job_failed
from jobs.states import JobState
from tests.jobs.factories import WORKER, a_claim, an_executor, claim_again, state
from tests.wait import wait_until

pytestmark = pytest.mark.django_db
SECRET = "hunter2hunter2"
QUERIES = Path(__file__).parents[2] / "docs" / "monitoring" / "log-queries.yml"


class Break(jobs.Payload, kind="tests.reports.break"):
    pass


class Hidden(jobs.Payload, kind="tests.reports.hidden"):
    number: jobs.Sensitive[str]


class Tracker(logging.Handler):
    """Takes records like the logging integration of an error tracker."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.events: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.events.append(record)


@pytest.fixture
def tracker() -> Iterator[Tracker]:
    found = Tracker()
    logging.getLogger().addHandler(found)
    yield found
    logging.getLogger().removeHandler(found)


@pytest.fixture
def received() -> Iterator[list[dict[str, Any]]]:
    """What a receiver of the signal gets."""
    found: list[dict[str, Any]] = []

    def receive(**given: Any) -> None:
        found.append(given)

    job_failed.connect(receive)
    yield found
    job_failed.disconnect(receive)


@pytest.fixture
def console() -> Iterator[io.StringIO]:
    """What a console shows that has a plain formatter."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def breaks() -> Iterator[Callable[..., Any]]:
    """Runs a job whose handler does this, and writes how it ended."""

    def run(do: Callable[[jobs.Context], Any], claim: Any = None, **rules: Any) -> Any:
        @jobs.handler(Break, backoff=jobs.backoff.Fixed(30), **rules)
        def handle(ctx: jobs.Context, payload: Break) -> Any:
            return do(ctx)

        claim = claim or a_claim(Break(), tenant="acme", correlation_id="req-1")
        settler.write([attempt(claim)], WORKER)
        return claim

    yield run
    registry.unregister(Break.kind)


def attempt(claim: Any) -> Any:
    return runner.run(claim, Signal(str), _await, WORKER)


def _await(coroutine: Any, signal: Signal) -> Any:
    return asyncio.run(runner.obey(coroutine, signal))


def raises(error: BaseException) -> Callable[[jobs.Context], None]:
    def do(ctx: jobs.Context) -> None:
        raise error

    return do


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (one.levelname, one.getMessage()) for one in caplog.records if one.name == "jobs.attempts"
    ]


# ---- levels and words


def test_a_final_failure_is_one_error_with_its_traceback(
    breaks: Callable[..., Any], tracker: Tracker, console: io.StringIO
) -> None:
    claim = breaks(raises(RuntimeError("it is broken")), max_attempts=1)
    [event] = tracker.events
    assert event.getMessage() == (
        f"tests.reports.break: job {claim.id} failed for good (exhausted) in attempt 1: "
        "RuntimeError: it is broken"
    )
    told = {name: vars(event)[name] for name in ("kind", "queue", "tenant", "request_id")}
    assert told == {
        "kind": Break.kind, "queue": "default", "tenant": "acme", "request_id": "req-1",
    }  # fmt: skip
    assert event.exc_info is not None and event.exc_info[0] is not None
    assert event.exc_info[0].__name__ == "RuntimeError"
    assert str(event.exc_info[1]) == "it is broken"
    names = [frame.name for frame in traceback.extract_tb(event.exc_info[2])]
    assert names == ["handle", "do"]
    assert console.getvalue().count("Traceback (most recent call last)") == 1


def test_a_retry_is_a_warning_with_its_traceback(
    breaks: Callable[..., Any], tracker: Tracker, caplog: pytest.LogCaptureFixture
) -> None:
    claim = breaks(raises(ValueError("not yet")), max_attempts=2)
    [(level, text)] = lines(caplog)
    assert (level, text.partition(": ")[2]) == (
        "WARNING",
        f"attempt 1 of job {claim.id} failed: ValueError: not yet; it runs again in 30 s",
    )
    assert "in do\n" in caplog.text and tracker.events == []


def test_the_error_comes_with_the_last_attempt_only(
    breaks: Callable[..., Any], tracker: Tracker, received: list[dict[str, Any]]
) -> None:
    claim = breaks(raises(ValueError("no")), max_attempts=2)
    breaks(raises(ValueError("no")), claim_again(claim.id), max_attempts=2)
    assert state(claim.id) == "failed"
    assert len(tracker.events) == 1
    assert [(one["attempt"], one["final"]) for one in received] == [(1, False), (2, True)]


@pytest.mark.parametrize("error", [jobs.Snooze(5), jobs.RateLimited(5)])
def test_what_is_no_failure_is_no_warning(
    breaks: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    received: list[dict[str, Any]],
    error: Exception,
) -> None:
    breaks(raises(error))
    assert lines(caplog) == [] and received == []


def test_beginnings_and_successes_are_for_debugging(
    breaks: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    breaks(lambda ctx: None)
    assert lines(caplog) == []
    caplog.set_level(logging.DEBUG, logger="jobs.attempts")
    claim = breaks(lambda ctx: None)
    begun, ended = lines(caplog)
    assert begun == ("DEBUG", f"{Break.kind}: attempt 1 of job {claim.id} begins")
    assert ended[1].startswith(f"{Break.kind}: attempt 1 of job {claim.id} succeeded in 0.")


def test_trackers_group_by_kind(breaks: Callable[..., Any], tracker: Tracker) -> None:
    breaks(raises(ValueError("one")), max_attempts=1)
    breaks(raises(ValueError("other")), max_attempts=1)
    assert len({one.msg for one in tracker.events}) == 1
    assert Break.kind in str(tracker.events[0].msg)


# ---- who settles


@pytest.mark.parametrize(
    ("ending", "fault", "words"),
    [
        ("timeout", "Timeout", "failed for good (timeout)"),
        ("crashed", "Crash", "failed for good (lost)"),
        ("lost", "ExecutorLost", "failed for good (lost)"),
    ],
)
def test_a_dead_executors_jobs_are_reported_by_whoever_buries_it(
    breaks: Callable[..., Any],
    tracker: Tracker,
    django_capture_on_commit_callbacks: Any,
    ending: Any,
    fault: str,
    words: str,
) -> None:
    breaks(lambda ctx: None, max_attempts=1, on_lost="fail")
    owner = an_executor()
    claim = a_claim(Break(), owner)
    with django_capture_on_commit_callbacks(execute=True):
        leases.bury(owner, WORKER, {claim.id: (ending, Fault(fault, "it is gone"))}, "gone")
        assert tracker.events == []  # nothing is committed
    [event] = tracker.events
    assert words in event.getMessage() and f"{fault}: it is gone" in event.getMessage()
    assert event.exc_info is None


def test_a_lapsed_lease_is_reported_by_the_reaper(
    breaks: Callable[..., Any],
    tracker: Tracker,
    received: list[dict[str, Any]],
    django_capture_on_commit_callbacks: Any,
) -> None:
    breaks(lambda ctx: None, on_lost="fail")
    a_claim(Break(), uuid7())  # of an owner without a lease
    with django_capture_on_commit_callbacks(execute=True):
        leases.reap(WORKER)
    assert "ExecutorSilent" in tracker.events[0].getMessage() and len(tracker.events) == 1
    assert [(one["reason"], one["exc_info"]) for one in received] == [("lost", None)]


def test_what_no_handler_knows_is_an_error(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = a_claim()
    monkeypatch.setattr(registry, "find", lambda kind: None)
    settler.write([attempt(claim)], WORKER)
    [event] = tracker.events
    assert "(unknown_kind)" in event.getMessage()


def test_nothing_is_reported_that_was_not_accepted(
    breaks: Callable[..., Any], tracker: Tracker
) -> None:
    claim = breaks(lambda ctx: None)
    late = runner._ended(claim, registry.get(Break.kind), "unrecoverable", Fault("X", "late"))
    settler.write([late], WORKER)
    assert tracker.events == []


def test_a_lost_answer_to_a_commit_loses_no_report(
    breaks: Callable[..., Any], tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(lambda ctx: None)
    outcome = runner._ended(
        a_claim(Break()), registry.get(Break.kind), "unrecoverable", Fault("X", "no")
    )
    with monkeypatch.context() as patch:
        real = sql.repeating

        def loses(write: Callable[[], Any]) -> Any:
            real(write)
            raise OperationalError("server closed the connection unexpectedly")

        patch.setattr(sql, "repeating", loses)
        with pytest.raises(OperationalError):
            settler.write([outcome], WORKER)
    assert tracker.events == []
    settler.write([outcome], WORKER)
    assert len(tracker.events) == 1


def test_another_end_is_not_reported_twice(breaks: Callable[..., Any], tracker: Tracker) -> None:
    """As when a reaper was quicker, and has reported it."""
    breaks(lambda ctx: None)
    claim = a_claim(Break())
    for message in ("first", "second"):
        outcome = runner._ended(
            claim, registry.get(Break.kind), "unrecoverable", Fault("X", message)
        )
        settler.write([outcome], WORKER)
    assert len(tracker.events) == 1


# ---- secrets


def test_no_secret_is_in_the_line_nor_in_the_exception(
    breaks: Callable[..., Any],
    tracker: Tracker,
    console: io.StringIO,
    received: list[dict[str, Any]],
) -> None:
    def do(ctx: jobs.Context) -> None:
        try:
            raise KeyError(f"password={SECRET}")
        except KeyError as error:
            error.add_note(f"token={SECRET}")
            raise RuntimeError(f"api_key={SECRET}\nand more") from error

    breaks(do, max_attempts=1)
    [event] = tracker.events
    assert SECRET not in everything(event) and SECRET not in console.getvalue()
    assert event.exc_info is not None and event.exc_info[1] is not None
    assert type(event.exc_info[1].__cause__).__name__ == "KeyError"
    assert SECRET not in str(received[0]["error"])
    assert received[0]["exc_info"][1] is event.exc_info[1]


def test_no_value_of_a_sensitive_payload_gets_out(tracker: Tracker) -> None:
    @jobs.handler(Hidden)
    def handle(ctx: jobs.Context, payload: Hidden) -> None:
        number = payload.number
        try:
            int(number)
        except ValueError as error:
            raise jobs.Unrecoverable(f"never for {number}") from error

    try:
        settler.write([attempt(a_claim(Hidden(number="Zeisig-55")))], WORKER)
    finally:
        registry.unregister(Hidden.kind)
    [event] = tracker.events
    assert event.exc_info is not None
    assert "Zeisig" not in everything(event)


def everything(record: logging.LogRecord) -> str:
    """What a tracker can read of a record: texts, and the variables of every frame."""
    parts = [logging.Formatter().format(record), logs.JsonFormatter().format(record)]
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        parts += [repr(error), *getattr(error, "__notes__", ())]
        trace = error.__traceback__
        while trace is not None:
            assert trace.tb_frame.f_back is None
            parts += [trace.tb_frame.f_code.co_name, repr(trace.tb_frame.f_locals)]
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


def test_the_redacting_filter_leaves_the_redacted_exception(
    breaks: Callable[..., Any], tracker: Tracker
) -> None:
    quiet = logging.NullHandler()
    quiet.handle = quiet.filter  # type: ignore[method-assign]
    quiet.addFilter(redaction.RedactingFilter())
    logging.getLogger("jobs").addHandler(quiet)  # comes before the tracker's
    try:
        breaks(raises(ValueError("no")), max_attempts=1)
    finally:
        logging.getLogger("jobs").removeHandler(quiet)
    [event] = tracker.events
    assert event.exc_info is not None
    assert "in do" in logs.JsonFormatter().format(event)


# ---- receivers


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_receiver_that_raises_harms_nobody(
    breaks: Callable[..., Any], error: type[BaseException]
) -> None:
    def receive(**given: Any) -> None:
        raise error("no")

    job_failed.connect(receive)
    try:
        claim = breaks(raises(ValueError("no")), max_attempts=1)
    finally:
        job_failed.disconnect(receive)
    assert state(claim.id) == "failed"


def test_what_a_receiver_logs_knows_the_job(breaks: Callable[..., Any]) -> None:
    seen: list[Any] = []

    def receive(**given: Any) -> None:
        seen.append(logs.bound()["job_id"])

    job_failed.connect(receive)
    try:
        claim = breaks(raises(ValueError("no")), max_attempts=1)
    finally:
        job_failed.disconnect(receive)
    assert seen == [str(claim.id)]


# ---- the thread


def failure() -> Report:
    move = Move(JobState.FAILED, "no", failed=1, attempt="failed", reason="exhausted")
    return Report(
        uuid7(), "a.kind", "default", "", 1, "", JobState.FAILED, move, Fault("X", "no")
    )  # fmt: skip


def test_a_slow_receiver_does_not_keep_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "LIMIT", 2)
    monkeypatch.setattr(reports, "PATIENCE", 0.01)
    gate, seen = threading.Event(), list[Any]()

    def receive(**given: Any) -> None:
        gate.wait()
        seen.append(given["job_id"])

    reporter = Reporter()
    reporter.defer()
    job_failed.connect(receive)
    try:
        for _ in range(5):
            reporter.put([failure()])
        assert seen == []
        gate.set()
        wait_until(lambda: len(seen) >= 2)
        reporter.finish()
    finally:
        gate.set()
        job_failed.disconnect(receive)
    assert 2 <= len(seen) <= 3


def test_the_end_waits_for_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    sentry = Mock()
    monkeypatch.setitem(sys.modules, "sentry_sdk", sentry)
    reporter, seen = Reporter(), list[Any]()

    def receive(**given: Any) -> None:
        seen.append(given["job_id"])

    reporter.defer()
    job_failed.connect(receive)
    try:
        reporter.put([failure() for _ in range(50)])
        reporter.finish()
    finally:
        job_failed.disconnect(receive)
    assert len(seen) == 50
    sentry.flush.assert_called_once()


# ---- the queries of docs/monitoring


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Jobs that failed for good, by kind", {"final"}),
        ("Attempts that failed and run again, by kind", {"first"}),
        ("Everything about one job", {"first", "final"}),
        ("Everything that came of one request", {"first", "final"}),
        ("Tracebacks of a queue", {"first", "final"}),
        ("Failures of a tenant after the first attempt", {"final"}),
    ],
)
def test_the_queries_find_the_lines(
    breaks: Callable[..., Any], caplog: pytest.LogCaptureFixture, name: str, wanted: set[str]
) -> None:
    claim = breaks(raises(ValueError("no")), max_attempts=2)
    breaks(raises(ValueError("no")), claim_again(claim.id), max_attempts=2)
    formatter = logs.JsonFormatter()
    found = dict(zip(("first", "final"), map(formatter.format, caplog.records), strict=True))
    told = {"job": str(claim.id), "request": "req-1", "queue": "default", "tenant": "acme"}
    text = QUERIES.read_text().partition(f"name: {name}\n")[2].partition("\n\n")[0]
    matching = {one for one, line in found.items() if matches(text, json.loads(line), told)}
    assert matching == wanted


def matches(query: str, line: dict[str, Any], told: dict[str, str]) -> bool:
    """Whether Loki's label filters let the line pass."""
    filters = re.findall(r'\| (\w+) ?(=~|!=|=|>) ?"?([^" ]*)', query)
    assert filters
    tests: dict[str, Callable[[Any, str], bool]] = {
        "=": lambda seen, value: str(seen) == value,
        "!=": lambda seen, value: str(seen) != value,
        "=~": lambda seen, value: re.fullmatch(value, str(seen)) is not None,
        ">": lambda seen, value: int(seen) > int(value),
    }
    return all(
        tests[sign](line.get(label, ""), told.get(value.removeprefix("$"), value))
        for label, sign, value in filters
    )
