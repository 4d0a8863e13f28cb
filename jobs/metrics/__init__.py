"""Metrics for Prometheus: ``path("metrics", jobs.metrics.view)`` serves them.

Apps declare their own with ``counter``, ``histogram`` and ``gauge``; counting them needs no extra.
The view needs the extra ``metrics`` (prometheus-client). ``series`` reads the statistics of jobs
for charts of your own, and ``waiting`` counts the jobs of queues that have not begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs import lazy
from jobs.metrics.declare import Counter, Gauge, Histogram, counter, gauge, histogram

if TYPE_CHECKING:
    from jobs.metrics.page import view as view
    from jobs.operate.depths import waiting as waiting
    from jobs.operate.stats import series as series

__all__ = [
    "Counter",
    "Gauge",
    "Histogram",
    "counter",
    "gauge",
    "histogram",
    "series",
    "view",
    "waiting",
]


if not TYPE_CHECKING:
    __getattr__ = lazy.attach("jobs.metrics", {
        "series": "jobs.operate.stats", "view": "jobs.metrics.page",
        "waiting": "jobs.operate.depths",
    })  # fmt: skip
