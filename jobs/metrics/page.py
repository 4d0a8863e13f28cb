"""The page that Prometheus reads: who may, and what it is told."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

from django.contrib.auth.decorators import login_not_required
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

from jobs import conf, histograms
from jobs.metrics import apps, numbers
from jobs.metrics.apps import AppMetric
from jobs.metrics.names import METRICS, Metric
from jobs.metrics.numbers import Durations, Number

CACHE_SECONDS = 2.0
"""So long the numbers are served again without asking the database."""
_FORWARDED = (
    *("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO"),
    *("HTTP_X_REAL_IP", "HTTP_VIA"),
)
_lock = threading.Lock()
_told: tuple[float, bytes] | None = None


@login_not_required
@require_safe
def view(request: HttpRequest) -> HttpResponse:
    """The metrics, for who shows the token of the settings; without one, for this machine only."""
    if token := conf.settings().METRICS_TOKEN:
        shown = request.headers.get("Authorization", "")
        if not constant_time_compare(shown, f"Bearer {token}"):
            return _plain("a token is needed\n", 403)
    elif not _is_local(request):
        return _plain("not found\n", 404)
    try:
        return HttpResponse(text(), content_type="text/plain; version=0.0.4; charset=utf-8")
    except ImportError:
        return _plain("install django-jobdesk[metrics]\n", 501)
    except Error:
        return _plain("the database does not answer\n", 503)


def text() -> bytes:
    """The metrics in the text format of Prometheus, at most ``CACHE_SECONDS`` old."""
    global _told
    with _lock:
        moment = time.monotonic()
        if _told is None or moment - _told[0] >= CACHE_SECONDS:
            _told = (moment, _written(*numbers.read(), apps.read()))
        return _told[1]


def forget() -> None:
    """The next reader gets fresh numbers."""
    global _told
    _told = None


def _written(
    found: Iterable[Number], durations: Iterable[Durations], others: Sequence[AppMetric]
) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.metrics_core import Metric as Family

    by_name: dict[str, list[Number]] = {metric.name: [] for metric in METRICS}
    for number in found:
        by_name[number.name].append(number)

    def family(metric: Metric) -> Family:
        if metric.type == "histogram":
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            for one in durations:
                buckets = _cumulated(histograms.BOUNDS, one.buckets)
                histogram.add_metric([one.kind, one.status], buckets, one.seconds)
            return histogram
        return plain(metric, [(one.labels, one.value) for one in by_name[metric.name]])

    def plain(metric: Metric, values: Iterable[tuple[Sequence[str], float]]) -> Family:
        make = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
        made = make(metric.name, metric.help, labels=metric.labels)
        for labels, value in values:
            made.add_metric(labels, value)
        return made

    def of_an_app(metric: AppMetric) -> Family:
        if metric.spec.type != "histogram":
            return plain(metric.spec, metric.values.items())
        made = HistogramMetricFamily(metric.spec.name, metric.spec.help, labels=metric.spec.labels)
        for labels, buckets in metric.buckets.items():
            made.add_metric(labels, _cumulated(metric.bounds, buckets), metric.values[labels])
        return made

    class Collector:
        def collect(self) -> Iterator[Family]:
            yield from map(family, METRICS)
            yield from map(of_an_app, others)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return generate_latest(registry)


def _cumulated(bounds: Sequence[float], buckets: Iterable[int]) -> list[tuple[str, float]]:
    total, told = 0, []
    for bound, count in zip([*map(str, bounds), "+Inf"], buckets, strict=True):
        total += count
        told.append((bound, float(total)))
    return told


def _is_local(request: HttpRequest) -> bool:
    """Whether the client itself is on this machine: a proxy here speaks for somebody else."""
    if any(name in request.META for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _plain(told: str, status: int) -> HttpResponse:
    return HttpResponse(told, status=status, content_type="text/plain; charset=utf-8")
