"""The numbers behind the metrics of apps: what all processes have counted, and what is read now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import transaction

from jobs.engine import metrics, sql
from jobs.metrics import declare
from jobs.metrics.declare import Gauge, Labels
from jobs.metrics.names import Metric
from jobs.metrics.numbers import STATEMENT_LIMIT

log = logging.getLogger("jobs.metrics")


@dataclass(slots=True)
class AppMetric:
    """A metric with what was counted, by the values of its labels."""

    spec: Metric
    bounds: tuple[float, ...] = ()
    values: dict[Labels, float] = field(default_factory=dict)
    """Of a histogram, the sum of what was counted."""
    buckets: dict[Labels, list[int]] = field(default_factory=dict)


def read() -> list[AppMetric]:
    """Return every declared metric; a gauge whose function fails is logged and left out."""
    found = {
        one.name: AppMetric(one.spec, one.bounds, _at_first(one.spec)) for one in declare.declared()
    }
    if not found:
        return []
    with sql.reading(STATEMENT_LIMIT):
        rows = metrics.rows([*found])
    for name, labels, bounds, value, buckets in rows:
        metric, key = found[name], tuple(labels)
        if tuple(bounds) != metric.bounds or len(key) != len(metric.spec.labels):
            continue  # of another version of the app
        metric.values[key] = metric.values.get(key, 0.0) + value
        if metric.bounds:
            metric.buckets[key] = buckets
    for one in declare.declared():
        if isinstance(one, Gauge) and one.read is not None:
            found[one.name].values = _read(one)
    return [*found.values()]


def _at_first(spec: Metric) -> dict[Labels, float]:
    """A counter without labels begins at 0, so that its first step can be seen."""
    return {(): 0.0} if spec.type == "counter" and not spec.labels else {}


def _read(gauge: Gauge) -> dict[Labels, float]:
    assert gauge.read is not None  # noqa: S101
    try:
        with sql.reading(STATEMENT_LIMIT), transaction.atomic(using=sql.alias()):
            answer = gauge.read()
        if answer is None:
            return {}
        numbers = answer if isinstance(answer, Mapping) else {(): answer}
        found: dict[Labels, float] = {}
        for key, number in numbers.items():
            labels = (key,) if isinstance(key, str) else tuple(key)
            if len(found) >= gauge.most:
                break
            if len(labels) != len(gauge.spec.labels):
                raise TypeError(f"{labels} are no values of {gauge.spec.labels}")
            found[tuple(map(declare.shown, labels))] = float(number)
        return found
    except Exception:
        log.exception("the gauge %s cannot be read", gauge.name)
        return {}
