"""Tracing: spans from the enqueue through the attempt to its effects, and no cost without them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import jobs
from jobs import registry, tracing
from jobs.context import Signal
from jobs.engine import runner
from tests.jobs.factories import WORKER, a_claim, a_job, claim_again, row
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


class Traced(jobs.Payload, kind="tests.tracing.traced"):
    pass


@pytest.fixture
def handle() -> Iterator[Callable[..., None]]:
    """Registers the handler of ``Traced`` for the test."""

    def register(function: Callable[[jobs.Context, Any], Any]) -> None:
        jobs.handler(Traced)(function)

    yield register
    registry.unregister(Traced.kind)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, ReadableSpan]]]:
    """The program has set up a provider; answers the finished spans by their names."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield lambda: {span.name: span for span in exporter.get_finished_spans()}
    provider.shutdown()


def run(claim: Any) -> Any:
    return runner.run(claim, Signal(str), lambda value, _: value, WORKER)


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def test_a_trace_goes_from_the_request_through_the_job(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    handle(lambda ctx, payload: None)
    with trace.get_tracer("web").start_as_current_span("request"):
        claim = a_claim(Traced())
    run(claim)
    found = spans()
    assert parent(found["jobs enqueue"]) == span_id(found["request"])
    assert parent(found["jobs attempt"]) == span_id(found["jobs enqueue"])
    told = found["jobs attempt"].attributes or {}
    assert told["jobs.job"] == str(claim.id)
    assert (told["jobs.kind"], told["jobs.attempt"]) == (Traced.kind, 1)


def test_the_wait_is_a_span_from_the_due_time_to_the_start(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    handle(lambda ctx, payload: None)
    claim = a_claim(Traced())
    jobs.Job.objects.filter(pk=claim.id).update(
        created_at=datetime(2030, 1, 1, 11, tzinfo=UTC),
        run_at=datetime(2030, 1, 1, 12, tzinfo=UTC),
        started_at=datetime(2030, 1, 1, 12, 0, 7, 250_001, tzinfo=UTC),
    )
    run(claim)
    found = spans()
    wait = found["jobs wait"]
    assert wait.start_time == 1_893_499_200 * 10**9
    assert wait.end_time == wait.start_time + 7_250_001_000
    assert parent(wait) == parent(found["jobs attempt"]) == span_id(found["jobs enqueue"])
    assert (wait.attributes or {})["jobs.job"] == str(claim.id)


def test_children_belong_to_the_attempt(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    children: list[Any] = []

    def branch(ctx: jobs.Context, payload: Any) -> None:
        children.extend(jobs.enqueue_many([Noop(), Noop()]))

    handle(branch)
    run(a_claim(Traced()))
    attempt = spans()["jobs attempt"]
    for child in children:
        assert f"{span_id(attempt):016x}" in row(child).trace_context


def test_a_failure_tells_its_class_and_never_its_text(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    def fail(ctx: jobs.Context, payload: Any) -> None:
        raise ValueError("jane.roe@example.com")

    handle(fail)
    run(a_claim(Traced()))
    span = spans()["jobs attempt"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert "jane.roe" not in span.to_json()


def test_an_effect_is_a_span_of_its_attempt(
    spans: Callable[[], dict[str, ReadableSpan]],
    handle: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jobs.engine.effects import Ledger

    # The ledger itself is tested elsewhere, where its transactions are real.
    monkeypatch.setattr(Ledger, "run", lambda self, key, call, probe, terms: call())
    handle(lambda ctx, payload: ctx.effect("charge", lambda: 7))
    run(a_claim(Traced()))
    found = spans()
    assert parent(found["jobs effect"]) == span_id(found["jobs attempt"])
    assert (found["jobs effect"].attributes or {})["jobs.effect"] == "charge"


def test_an_event_is_a_span_of_what_emits_it(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    handle(lambda ctx, payload: str(jobs.emit("parcel.posted", {"n": 1}, tenant="acme")))
    run(a_claim(Traced()))
    made = spans()["jobs emit"]
    assert parent(made) == span_id(spans()["jobs attempt"])
    assert (made.attributes or {})["jobs.topic"] == "parcel.posted"


def test_a_stored_context_that_is_none_is_ignored(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    handle(lambda ctx, payload: None)
    for stored in ("{", "[]", "null", '{"traceparent": "nonsense"}'):
        claim = claim_again(a_job("pending", Traced()))
        jobs.Job.objects.filter(pk=claim.id).update(trace_context=stored)
        run(claim)
        assert spans()["jobs attempt"].parent is None


def test_without_a_provider_nothing_is_asked_and_nothing_is_stored() -> None:
    assert not tracing.is_on()
    with CaptureQueriesContext(connection) as queries:
        job_id = a_job("pending", Noop())
    assert not [query for query in queries if "trace_context" in query["sql"]]
    assert row(job_id).trace_context == ""


def test_without_a_provider_a_span_costs_next_to_nothing() -> None:
    def one() -> None:
        with tracing.span("x", "CLIENT", key="value"):
            pass

    assert min(timeit.repeat(one, number=1000, repeat=5)) / 1000 < 50e-6


def test_the_library_runs_without_opentelemetry() -> None:
    lines = (
        "import sys, os",
        "sys.modules['opentelemetry'] = None  # as if it were not installed",
        "import django",
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'",
        "django.setup()",
        "import jobs.engine.executor",
        "from jobs import tracing",
        "assert not tracing.is_on() and tracing.carrier() == ''",
        "with tracing.span('x', 'CLIENT', key='value') as fail:",
        "    fail('ValueError')",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_library_itself_imports_none_of_it() -> None:
    lines = (
        "import sys",
        "from jobs import tracing",
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_handler_shows_its_pieces(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    def work(ctx: jobs.Context, payload: Traced) -> None:
        with ctx.span("import.page", page=3, mail="ann@example.com", password="hunter2"):
            pass
        with pytest.raises(ValueError), ctx.span("score.trade"):
            raise ValueError("secret text")

    handle(work)
    claim = a_claim(Traced())
    run(claim)
    found = spans()
    page, score = found["import.page"], found["score.trade"]
    assert parent(page) == parent(score) == span_id(found["jobs attempt"])
    told = dict(page.attributes or {})
    assert (told["page"], told["jobs.job"], told["jobs.kind"]) == (3, str(claim.id), Traced.kind)
    assert "ann" not in str(told["mail"]) and "hunter2" not in str(told)
    assert (score.attributes or {})["error.type"] == "ValueError"
    assert "secret text" not in score.to_json()


def test_a_coroutine_shows_its_pieces(
    spans: Callable[[], dict[str, ReadableSpan]], handle: Callable[..., None]
) -> None:
    async def work(ctx: jobs.Context, payload: Traced) -> None:
        async def one(number: int) -> None:
            with ctx.span(f"piece.{number}"):
                await asyncio.sleep(0)

        await asyncio.gather(one(1), one(2))

    handle(work)
    claim = a_claim(Traced())
    runner.run(claim, Signal(str), lambda value, _: asyncio.run(value), WORKER)
    found = spans()
    for number in (1, 2):
        assert parent(found[f"piece.{number}"]) == span_id(found["jobs attempt"])


def test_without_a_provider_a_piece_is_just_done(handle: Callable[..., None]) -> None:
    done = []

    def work(ctx: jobs.Context, payload: Traced) -> None:
        with ctx.span("import.page", page=1):
            done.append(1)

    handle(work)
    run(a_claim(Traced()))
    assert done == [1]
