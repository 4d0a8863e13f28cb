"""What operators see of a run: its spans, its lines in the log, and its metrics."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.core.cache import cache
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from config.standins.trading import Coinbase, Fault
from jobs import logs
from jobs.engine import metrics
from jobs.metrics import page
from jobs.testing import emitted, run_jobs
from trading import services
from trading.clock import week_of
from trading.models import BrokerConnection, Trade

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[ReadableSpan]]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield lambda: list(exporter.get_finished_spans())
    provider.shutdown()


def test_each_step_is_a_span_of_its_attempt(
    venue: Coinbase, link: BrokerConnection, spans: Callable[[], list[ReadableSpan]]
) -> None:
    venue.page = 5
    services.start_import(link, by="tests")
    run_jobs()
    newest = Trade.objects.order_by("-ts")[0]
    services.simulate(link.user_id, newest.pk, 1)
    start = week_of(newest.ts).date()
    services.enqueue_digest(link.user_id, start, start + timedelta(days=7))
    run_jobs()
    counted = Counter(span.name for span in spans())
    assert counted["import.page"] == 3 and counted["score.trade"] == 12
    assert counted["sim.run"] == counted["digest.aggregate"] == 1
    assert counted["jobs enqueue"] == 4 and counted["jobs emit"] == 3 + 12 + 1


def test_lines_name_job_user_queue_and_attempt(venue: Coinbase, link: BrokerConnection) -> None:
    written: list[dict[str, object]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(json.loads(logs.JsonFormatter().format(record)))

    kept, root = Kept(), logging.getLogger()
    root.addHandler(kept)
    venue.plan("fills", Fault(429, {"Retry-After": "3600"}))
    try:
        job = services.start_import(link, by="tests")
        run_jobs()
    finally:
        root.removeHandler(kept)
    [line] = [line for line in written if "asks to wait" in str(line["message"])]
    wanted = {
        "job_id": str(job), "tenant": f"user:{link.user_id}", "queue": "q_import", "attempt": 1,
        "reset_s": 3600.0,
    }  # fmt: skip
    assert {name: line.get(name) for name in wanted} == wanted


def test_metrics_have_the_names_and_labels_that_dashboards_ask_for(
    venue: Coinbase, link: BrokerConnection
) -> None:
    services.start_import(link, by="tests")
    run_jobs()
    venue.plan("fills", Fault(0))
    services.start_import(link, by="tests")
    run_jobs()
    cache.clear()
    venue.plan("candles", Fault(429, {"Retry-After": "1"}))
    services.simulate(link.user_id, Trade.objects.order_by("-ts")[0].pk, 1)
    run_jobs()
    assert emitted("coach.reflect")
    metrics.recorder.flush()  # as the process does after some seconds
    page.forget()
    text = page.text().decode()
    for pattern in (
        r'^job_duration_ms_count\{job="import\.trades",status="err"\} [1-9]',
        r'^job_duration_ms_count\{job="import\.trades",status="ok"\} [1-9]',
        r'^vendor_429_total\{source="broker"\} [1-9]',
        r'^ai_request_ms_count\{endpoint="indicators"\} ',
        r'^ai_requests_total\{outcome="ok"\} ',
        r"^event_outbox_writes_total [1-9]",
        r'^queue_depth\{queue="q_import"\} 1\.0',
        r'^queue_depth\{queue="q_digest"\} 0\.0',
        r"^trading_reflect_seconds_count ",
    ):
        assert re.search(pattern, text, re.M), pattern
