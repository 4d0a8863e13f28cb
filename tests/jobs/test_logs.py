"""Logs: lines that know their job, tell no secrets, and stay with attempts that failed."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

import jobs
from jobs import logs, registry
from jobs.context import Signal
from jobs.engine import runner
from jobs.engine.claims import Ended
from jobs.models import Attempt
from tests.jobs.factories import WORKER, a_claim, row, settle
from tests.specimens.handlers import Noop

ROOT = Path(__file__).resolve().parents[2]
SECRET = "password=hunter2hunter2"


class Talk(jobs.Payload, kind="tests.logs.talk"):
    pass


class TalkLater(jobs.Payload, kind="tests.logs.talk_later"):
    pass


@pytest.fixture
def handle() -> Iterator[Callable[..., None]]:
    """Registers a handler for the test."""
    made: list[str] = []

    def register(payload: type[jobs.Payload], function: Any) -> None:
        jobs.handler(payload)(function)
        made.append(payload.kind)

    yield register
    for kind in made:
        registry.unregister(kind)


@pytest.fixture
def written() -> Iterator[list[str]]:
    """What the root logger's handler writes as JSON."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Kept()
    handler.setFormatter(logs.JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lines
    root.removeHandler(handler)
    root.setLevel(before)


def run(claim: Any) -> Any:
    """As an executor does: coroutines run on a loop in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(coroutine: Any, signal: Signal) -> Any:
        return asyncio.run_coroutine_threadsafe(runner.obey(coroutine, signal), loop).result()

    try:
        return runner.run(claim, Signal(str), wait, WORKER)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def record(message: object = "hello", *args: object, **extra: Any) -> logging.LogRecord:
    return logging.getLogger("a.b").makeRecord(
        "a.b", logging.INFO, __file__, 1, message, args, None, extra=extra
    )


# ---- what is bound


def test_what_is_bound_nests_and_ends() -> None:
    with logs.binding(request_id="r1", tenant="acme"):
        with logs.binding(tenant=None, user_id=7):
            assert dict(logs.bound()) == {"request_id": "r1", "user_id": 7}
        assert dict(logs.bound()) == {"request_id": "r1", "tenant": "acme"}
    assert dict(logs.bound()) == {}


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot bind colour"), logs.binding(colour="red"):
        pass


@pytest.mark.django_db
@pytest.mark.parametrize("payload", [Talk, TalkLater])
def test_lines_of_any_library_know_the_job(
    handle: Callable[..., None], written: list[str], payload: type[jobs.Payload]
) -> None:
    def talk(ctx: jobs.Context, payload: Any) -> None:
        logging.getLogger("some.library").info("hi")

    async def talk_later(ctx: jobs.Context, payload: Any) -> None:
        logging.getLogger("some.library").info("hi")

    handle(payload, talk if payload is Talk else talk_later)
    claim = a_claim(payload(), tenant="acme", correlation_id="req-1")
    run(claim)
    [line] = [json.loads(text) for text in written if "some.library" in text]
    told = {name: line[name] for name in logs.FIELDS if name in line}
    assert told == {
        "job_id": str(claim.id),
        "kind": payload.kind,
        "queue": claim.queue,
        "attempt": 1,
        "tenant": "acme",
        "request_id": "req-1",
    }
    assert dict(logs.bound()) == {}


@pytest.mark.django_db
def test_a_request_id_follows_the_jobs() -> None:
    with logs.binding(request_id="req-9"):
        assert row(jobs.enqueue(Noop()).id).correlation_id == "req-9"
        assert row(jobs.enqueue(Noop(), correlation_id="mine").id).correlation_id == "mine"
    with logs.binding(request_id="x" * 300):
        assert row(jobs.enqueue(Noop()).id).correlation_id == ""


def test_the_filter_gives_every_field() -> None:
    one = record()
    with logs.binding(kind="a.kind"):
        assert logs.BindingFilter().filter(one)
    assert (vars(one)["kind"], vars(one)["user_id"]) == ("a.kind", "")


# ---- how it is written


@pytest.mark.parametrize("formatter", [logs.JsonFormatter(), logs.ConsoleFormatter()])
def test_no_formatter_tells_a_secret_or_forges_a_line(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(f"no {SECRET}")
    except ValueError as error:
        one = record("mail to %s\nnext", "jane.roe@example.com", api_key="k" * 20, note=SECRET)
        one.exc_info = (type(error), error, error.__traceback__)
    told = formatter.format(one)
    for secret in ("jane.roe", "kkkk", "hunter2"):
        assert secret not in told
    assert "ValueError" in told
    assert "\nnext" not in told


def test_json_is_one_object_with_what_is_bound_and_extras() -> None:
    with logs.binding(kind="a.kind", attempt=2):
        told = json.loads(logs.JsonFormatter().format(record("n is %d", 5, size=3, level="odd")))
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "INFO",
        "logger": "a.b",
        "message": "n is 5",
        "kind": "a.kind",
        "attempt": 2,
        "size": 3,
    }


def test_the_console_names_what_is_bound() -> None:
    with logs.binding(kind="a.kind"):
        assert logs.ConsoleFormatter().format(record()).endswith(" INFO a.b hello kind=a.kind")


def test_a_line_that_cannot_be_formatted_is_written_all_the_same() -> None:
    assert "%d apples" in logs.JsonFormatter().format(record("%d apples", "no"))


@pytest.mark.django_db
def test_what_a_handler_logs_of_an_exception_is_written(
    handle: Callable[..., None], written: list[str]
) -> None:
    def talk(ctx: jobs.Context, payload: Any) -> None:
        try:
            raise LookupError(SECRET)
        except LookupError:
            ctx.log.exception("cannot find it")

    handle(Talk, talk)
    run(a_claim(Talk()))
    [line] = [json.loads(text) for text in written if "cannot find it" in text]
    assert "LookupError: password=***" in line["exception"]


# ---- where it is written


@contextmanager
def unconfigured() -> Iterator[logging.Logger]:
    """The loggers as Django's default settings leave them, and without those of pytest."""
    root, ours = logging.getLogger(), logging.getLogger("jobs")
    before = [(one, one.handlers[:], one.level) for one in (root, ours)]
    for one in (root, ours):
        one.handlers[:] = []
    ours.setLevel(logging.NOTSET)
    try:
        yield ours
    finally:
        for one, handlers, level in before:
            one.handlers[:] = handlers
            one.setLevel(level)


@pytest.fixture
def usual(settings: Any) -> Any:
    """Django's default settings of logging."""
    settings.LOGGING, settings.LOGGING_CONFIG = {}, "logging.config.dictConfig"
    return settings


def test_without_settings_lines_go_to_standard_error(usual: Any) -> None:
    with unconfigured() as ours:
        logging.getLogger().addHandler(logging.NullHandler())  # of an error tracker, perhaps
        logs.write_somewhere()
        logs.write_somewhere()
        [handler] = ours.handlers
        assert isinstance(handler, logging.StreamHandler)
        assert isinstance(handler.formatter, logs.ConsoleFormatter)
        assert ours.getEffectiveLevel() == logging.INFO


@pytest.mark.parametrize("where", ["", "jobs"])
def test_a_console_that_is_there_is_left_alone(usual: Any, where: str) -> None:
    with unconfigured() as ours:
        logging.getLogger(where).addHandler(logging.StreamHandler())
        logs.write_somewhere()
        assert len(ours.handlers) == (where == "jobs")
        assert ours.level == logging.NOTSET


@pytest.mark.parametrize(("name", "value"), [("LOGGING", {"version": 1}), ("LOGGING_CONFIG", None)])
def test_a_projects_own_choice_is_left_alone(usual: Any, name: str, value: Any) -> None:
    setattr(usual, name, value)
    with unconfigured() as ours:
        logging.getLogger().addHandler(logging.NullHandler())
        logs.write_somewhere()
        assert ours.handlers == []


def test_settings_that_say_nothing_of_it_leave_it_to_standard_error(usual: Any) -> None:
    usual.LOGGING = {"version": 1, "loggers": {"django": {"level": "INFO"}}}
    with unconfigured() as ours:
        logs.write_somewhere()
        assert len(ours.handlers) == 1


# ---- what stays with the attempt


def failing(lines: int) -> Callable[..., None]:
    def talk(ctx: jobs.Context, payload: Any) -> None:
        for number in range(lines):
            ctx.log.info("line %d", number)
        ctx.log.warning("to jane.roe@example.com\nsecond %s", SECRET)
        raise ValueError("no")

    return talk


@pytest.mark.django_db
def test_a_failed_attempt_keeps_its_last_lines_redacted(handle: Callable[..., None]) -> None:
    handle(Talk, failing(250))
    settle(run(a_claim(Talk())))
    lines = Attempt.objects.get().lines.split("\n")
    assert len(lines) == 200
    assert lines[0].endswith("INFO line 51")
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00 WARNING to ", lines[-1])
    assert "jane.roe" not in lines[-1] and "hunter2" not in lines[-1]


@pytest.mark.django_db
def test_other_endings_keep_none(handle: Callable[..., None]) -> None:
    def talk(ctx: jobs.Context, payload: Any) -> None:
        ctx.log.info("a line")
        raise jobs.Snooze(5)

    handle(Talk, talk)
    outcome = run(a_claim(Talk()))
    assert isinstance(outcome, Ended) and outcome.lines == ()
    settle(outcome)
    assert not Attempt.objects.exists()


def test_lines_are_kept_below_the_level_of_the_logger_and_shown_from_their_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quiet = logging.getLogger("tests.quiet")
    quiet.setLevel(logging.ERROR)
    mine = logs.AttemptLog.of(quiet, job_id="7")
    mine.info("kept")
    mine.debug("not kept")
    mine.error("both %s", "x" * 5000, extra={"size": 1})
    first, second = mine.lines()
    assert first.endswith("INFO kept") and len(second) == logs.LINE_LIMIT
    [shown] = caplog.records
    assert shown.filename == "test_logs.py"
    assert (vars(shown)["job_id"], vars(shown)["size"]) == ("7", 1)


def test_a_bound_logger_adds_fields_and_keeps_its_lines_with_the_others(
    written: list[str],
) -> None:
    mine = logs.AttemptLog.of(logging.getLogger("tests.attempt"), job_id="7")
    mine.bind(step="two").info("n is %d", 2, size=3, name="odd")
    assert mine.lines()[0].endswith("INFO n is 2")
    told = json.loads(written[0])
    assert (told["message"], told["job_id"], told["step"], told["size"]) == (
        "n is 2",
        "7",
        "two",
        3,
    )
    assert told["name_"] == "odd"


def test_structlogs_own_loggers_go_the_same_way(written: list[str]) -> None:
    before = structlog.get_config()
    logs.configure()
    try:
        with logs.binding(kind="a.kind"), structlog.contextvars.bound_contextvars(theirs=1):
            try:
                raise ValueError(f"no {SECRET}")
            except ValueError:
                structlog.get_logger("theirs").exception("it %s", "failed", password="p" * 9)
    finally:
        structlog.configure(**before)
    [told] = [json.loads(text) for text in written]
    assert (told["message"], told["kind"], told["theirs"]) == ("it failed", "a.kind", 1)
    assert "ValueError" in told["exception"] and "hunter2" not in written[0]
    assert "ppp" not in written[0]


@pytest.mark.django_db
def test_a_rate_limit_says_when_it_ends(handle: Callable[..., None], written: list[str]) -> None:
    def talk(ctx: jobs.Context, payload: Any) -> None:
        raise jobs.RateLimited(60)

    handle(Talk, talk)
    run(a_claim(Talk()))
    [line] = [json.loads(text) for text in written if "rate limited" in text]
    assert line["retry_after"] == 60
    assert line["reset_at"] in line["message"]


# ---- the queries


def test_every_field_that_a_query_names_is_written() -> None:
    text = (ROOT / "docs" / "monitoring" / "log-queries.yml").read_text()
    known = {*logs.FIELDS, "time", "level", "logger", "message", "exception"}
    known |= {"reset_at", "retry_after"}
    queries = re.findall(r"query: (.+)", text)
    assert len(queries) >= 5
    for query in queries:
        inner = query.partition("| json")[2]
        named = set(re.findall(r"(\w+) ?(?:!?=~?|>) ?[\"\d]", inner))
        named |= set(re.findall(r"\{\{\.(\w+)", inner))
        assert named and named <= known, query
