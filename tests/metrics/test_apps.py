"""Metrics of apps: counted in every process, bounded, and told with those of the platform."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core import mail
from django.db import InterfaceError, OperationalError, connection, connections
from prometheus_client.parser import text_string_to_metric_families
from psycopg import errors

import jobs
from jobs import metrics, registry, testing
from jobs.engine import metrics as engine
from jobs.engine import retention, sql
from jobs.engine.metrics import Recorder
from jobs.errors import ConfigError
from jobs.metrics import declare, page
from jobs.models import Metric
from tests.docs.pages import blocks
from tests.jobs.factories import sql as run
from tests.wait import wait_until

NAMES = ("shop_answers_total", "shop_seconds", "shop_open", "shop_plain_total", "shop_oldest")


@pytest.fixture(autouse=True)
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Of a process of its own."""
    made = Recorder()
    monkeypatch.setattr(engine, "recorder", made)
    page.forget()
    yield made
    declare.forget(*NAMES)
    page.forget()


def told() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    page.forget()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.text().decode())
        for sample in family.samples
        if sample.name.startswith("shop_")
    }


def at(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """The recorder of another process, which counts from now on."""
    made = Recorder()
    monkeypatch.setattr(engine, "recorder", made)
    return made


# ---- what they tell


@pytest.mark.django_db
def test_processes_count_together(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = metrics.counter("shop_answers_total", "Answers.", ["status", "source"])
    seconds = metrics.histogram("shop_seconds", "Waits.", ["source"], buckets=(0.1, 1))
    for number in (0.05, 0.1, 0.5, 7):
        seconds.observe(number, source="a")
    answers.inc(status="ok", source="a")
    recorder.flush()
    other = elsewhere(monkeypatch)
    answers.inc(2, source="a", status="ok")
    answers.inc(0.5, status="error", source="b")
    seconds.observe(2, source="a")
    assert answers.value(status="ok", source="a") == 3  # with what is not written yet
    other.flush()
    assert answers.value(status="ok", source="a") == 3
    assert told() == {
        at("shop_answers_total", status="ok", source="a"): 3,
        at("shop_answers_total", status="error", source="b"): 0.5,
        at("shop_seconds_bucket", source="a", le="0.1"): 2,
        at("shop_seconds_bucket", source="a", le="1.0"): 3,
        at("shop_seconds_bucket", source="a", le="+Inf"): 5,
        at("shop_seconds_count", source="a"): 5,
        at("shop_seconds_sum", source="a"): pytest.approx(9.65),
    }


@pytest.mark.django_db
def test_a_counter_without_labels_begins_at_nothing(recorder: Recorder) -> None:
    plain = metrics.counter("shop_plain_total", "Plain.")
    assert told() == {at("shop_plain_total"): 0}
    plain.inc()
    recorder.flush()
    assert told() == {at("shop_plain_total"): 1}


@pytest.mark.django_db
def test_a_gauge_is_the_sum_over_the_processes_that_live(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    browsers = metrics.gauge("shop_open", "Open browsers.", ["kind"])
    browsers.set(3, kind="a")
    recorder.flush()
    other = elsewhere(monkeypatch)
    browsers.set(9, kind="a")
    browsers.set(2, kind="a")
    other.flush()
    assert browsers.value(kind="a") == told()[at("shop_open", kind="a")] == 5
    browsers.set(4, kind="a")  # not written yet
    assert browsers.value(kind="a") == 7
    browsers.set(2, kind="a")
    run("UPDATE jobs_metric SET seen_at = seen_at - interval '1 min' WHERE value = 3")  # it died
    assert browsers.value(kind="a") == 2
    other.leave()
    assert told() == {}


@pytest.mark.django_db
def test_a_process_says_again_what_its_gauges_are(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    browsers = metrics.gauge("shop_open", "Open browsers.")
    browsers.set(1)
    recorder.flush()
    assert 5 < (recorder.wait() or 0) <= engine.RENEWAL
    run("UPDATE jobs_metric SET seen_at = seen_at - interval '1 min'")
    assert told() == {}
    recorder.flush()
    assert told() == {at("shop_open"): 1}


@pytest.mark.django_db
def test_a_gauge_may_be_read_when_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    def count() -> dict[tuple[str, str], float]:
        [(number,)] = sql.rows("SELECT 7")
        return {("a", "b"): number}

    def fail() -> float:
        sql.rows("SELECT nonsense")
        return 1

    metrics.gauge("shop_oldest", "Oldest.", ["x", "y"], read=count)
    broken = metrics.gauge("shop_open", "Broken.", read=fail)
    assert told() == {at("shop_oldest", x="a", y="b"): 7}
    assert "the gauge shop_open cannot be read" in caplog.text
    with pytest.raises(TypeError, match="is read, not set"):
        broken.set(1)


@pytest.mark.django_db
def test_a_gauge_that_is_read_changes_nothing() -> None:
    answers = []

    def write() -> float:
        answers.append(connection.in_atomic_block)
        return 1.5

    metrics.gauge("shop_oldest", "Oldest.", read=write)
    assert told() == {at("shop_oldest"): 1.5} and answers == [True]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_block_is_timed_also_where_it_raises(recorder: Recorder, unit: Any) -> None:
    seconds = metrics.histogram("shop_seconds", "Waits.", buckets=(0.05, 60), unit=unit)
    with pytest.raises(ValueError), seconds.time():
        wait_until(lambda: next(steps) > 5, interval=0.02)
        raise ValueError
    [found] = recorder._sums.values()
    assert sum(found.buckets) == 1 and (found.value >= 50 if unit == "ms" else found.value < 50)


steps = itertools.cycle(range(7))


# ---- how many there are


@pytest.mark.django_db
def test_a_metric_has_a_bound_of_series(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = metrics.counter("shop_answers_total", "Answers.", ["brand"], most=3)
    for number in range(10):
        answers.inc(brand=number)
    recorder.flush()
    other = elsewhere(monkeypatch)
    answers._series.clear()
    for number in range(5, 10):
        answers.inc(brand=number)
    answers.inc(brand=0)
    other.flush()
    found = told()
    assert sum(found.values()) == 16
    assert set(found) == {at("shop_answers_total", brand=b) for b in ("0", "1", "2", "other")}
    assert found[at("shop_answers_total", brand="other")] == 12


@pytest.mark.django_db(transaction=True)
def test_processes_that_meet_keep_to_the_bound(recorder: Recorder) -> None:
    answers = metrics.counter("shop_answers_total", "Answers.", ["brand"], most=5)
    barrier = threading.Barrier(4)

    def process(number: int) -> None:
        made = Recorder()
        barrier.wait()
        for step in range(5):
            name = f"{number}-{step}"
            made.add(declare.Series("shop_answers_total", (name,)), 1.0)
            made.flush()
        connections.close_all()

    threads = [threading.Thread(target=process, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    rows = Metric.objects.filter(name=answers.name)
    assert sum(row.value for row in rows) == 20
    assert len(rows) == 6 and rows.filter(labels=["other"]).exists()


@pytest.mark.django_db
def test_values_of_labels_tell_nobodys_secrets(recorder: Recorder) -> None:
    answers = metrics.counter("shop_answers_total", "Answers.", ["who"])
    answers.inc(who="ann.b@example.com")
    answers.inc(who="x" * 1000)
    recorder.flush()
    texts = [row.labels[0] for row in Metric.objects.all()]
    assert not any("ann.b" in text for text in texts) and max(map(len, texts)) <= 150


@pytest.mark.django_db
def test_series_that_nothing_was_counted_in_go(recorder: Recorder) -> None:
    metrics.counter("shop_plain_total", "Plain.").inc()
    recorder.flush()
    run("UPDATE jobs_metric SET seen_at = seen_at - interval '31 days'")
    metrics.counter("shop_answers_total", "Answers.").inc()
    recorder.flush()
    assert sum(part.rows.get("metrics", 0) for part in retention.sweep()) == 1
    assert [row.name for row in Metric.objects.all()] == ["shop_answers_total"]


@pytest.mark.django_db
def test_gauges_of_processes_that_died_go_after_an_hour(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    browsers = metrics.gauge("shop_open", "Open browsers.")
    browsers.set(1)
    recorder.flush()
    run("UPDATE jobs_metric SET seen_at = seen_at - interval '61 min'")
    other = elsewhere(monkeypatch)
    browsers.set(2)
    other.flush()
    assert sum(part.rows.get("gauges", 0) for part in retention.sweep()) == 1
    assert [row.value for row in Metric.objects.all()] == [2]


# ---- when the database is away


@pytest.mark.django_db
def test_what_the_server_refused_is_kept(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = metrics.counter("shop_plain_total", "Plain.")

    def refuse(*_: Any) -> Any:
        raise OperationalError from errors.AdminShutdown()

    plain.inc()
    with monkeypatch.context() as away:
        away.setattr(recorder, "_write", refuse)
        recorder.flush()
    plain.inc()
    assert recorder.wait() is not None
    recorder.flush()
    assert plain.value() == 2


def test_what_may_have_been_written_is_not_written_again(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lose(*_: Any) -> Any:
        raise InterfaceError("the connection is closed")

    monkeypatch.setattr(recorder, "_write", lose)
    metrics.counter("shop_plain_total", "Plain.").inc()
    recorder.flush()
    assert "1 numbers of metrics are lost" in caplog.text and not recorder._sums


# ---- who writes


@pytest.mark.django_db(transaction=True)
def test_a_process_that_is_no_executor_writes_by_itself(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(mail, "outbox")
    monkeypatch.setattr(engine, "INTERVAL", 0.05)
    plain = metrics.counter("shop_plain_total", "Plain.")
    for number in range(1, 4):
        plain.inc()
        wait_until(lambda: [row.value for row in Metric.objects.all()] == [number])  # noqa: B023
    wait_until(lambda: recorder._thread is None, message="nothing is left of it")


def test_under_the_test_environment_nothing_is_written_by_itself(recorder: Recorder) -> None:
    metrics.counter("shop_plain_total", "Plain.").inc()
    assert recorder._thread is None and recorder.wait() is not None


def test_a_fork_leaves_what_was_gathered_to_its_parent(recorder: Recorder) -> None:
    metrics.counter("shop_plain_total", "Plain.").inc()
    before = recorder.process
    recorder._begin()  # as after a fork
    assert not recorder._sums and recorder.wait() is None and recorder.process != before


# ---- what is wrong


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: metrics.counter("shop_answers", "x"), "_total"),
        (lambda: metrics.counter("shop answers_total", "x"), "a name has"),
        (lambda: metrics.counter("shop_answers_total", " "), "help"),
        (lambda: metrics.counter("shop_answers_total", "x", "ab"), "list"),
        (lambda: metrics.counter("shop_answers_total", "x", ["a", "a"]), "list"),
        (lambda: metrics.counter("shop_answers_total", "x", ["le"]), "cannot be a label"),
        (lambda: metrics.counter("shop_answers_total", "x", most=0), "most"),
        (lambda: metrics.counter("jobs_retries_total", "x"), "there already"),
        (lambda: metrics.gauge("job_duration_seconds_sum", "x"), "there already"),
        (lambda: metrics.histogram("shop_seconds", "x", buckets=()), "buckets"),
        (lambda: metrics.histogram("shop_seconds", "x", buckets=(2, 1)), "buckets"),
        (lambda: metrics.histogram("shop_seconds", "x", unit="h"), "unit"),  # type: ignore[arg-type]
        (lambda: metrics.histogram("shop_seconds", "x", buckets=(1, float("inf"))), "buckets"),
    ],
)
def test_a_wrong_declaration_names_the_metric(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        make()
    assert str(error.value).startswith("metric '")


def test_a_name_is_declared_once() -> None:
    metrics.histogram("shop_seconds", "Waits.")
    with pytest.raises(ConfigError, match="shop_seconds"):
        metrics.gauge("shop_seconds_count", "Waits.")
    with pytest.raises(ConfigError, match="there already"):
        metrics.histogram("shop_seconds", "Waits.")


def test_wrong_labels_and_numbers_are_errors() -> None:
    answers = metrics.counter("shop_answers_total", "Answers.", ["status"])
    for labels in ({}, {"state": "ok"}, {"status": "ok", "more": 1}):
        with pytest.raises(TypeError, match=r"takes the labels \(status\)"):
            answers.inc(**labels)
    for number in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError):
            answers.inc(number, status="ok")


# ---- what the documents show


@pytest.mark.django_db
def test_the_metrics_of_the_docs_count(recorder: Recorder) -> None:
    [text] = [one for one in blocks("docs/monitoring.md", "python") if "# shop/handlers" in one]
    space: dict[str, Any] = {}
    before = set(declare._declared)
    try:
        exec(compile(text, "monitoring.md", "exec"), space)  # noqa: S102
        jobs.enqueue(space["Score"](trade_id=7))
        assert testing.run_jobs().succeeded == 1
        recorder.flush()
        page.forget()
        lines = page.text().decode().splitlines()
    finally:
        declare.forget(*set(declare._declared) - before)
        registry.unregister("shop.score")
    for line in (
        'shop_limited_total{source="vendor"} 1.0',
        'shop_request_ms_bucket{endpoint="score",le="50.0"} 1.0',
        'shop_request_ms_sum{endpoint="score"} 35.0',
        "shop_contexts 3.0",
        "shop_oldest_import_seconds 12.5",
    ):
        assert line in lines, line
