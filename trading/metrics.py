"""Metrics of the app."""

from __future__ import annotations

from jobs import metrics

QUEUES = ("q_import", "q_score", "q_sim", "q_digest")

durations = metrics.histogram(
    "job_duration_ms", "How long attempts of trading jobs took.", ["job", "status"],
    buckets=(50, 100, 300, 1000, 3000, 5000, 15_000, 60_000), unit="ms",
)  # fmt: skip
limited = metrics.counter("vendor_429_total", "Answers that ask to wait.", ["source"])
asked = metrics.histogram(
    "ai_request_ms", "Requests to the AI service.", ["endpoint"],
    buckets=(10, 25, 50, 100, 250, 500, 1000, 2000), unit="ms",
)  # fmt: skip
ai_calls = metrics.counter(
    "ai_requests_total", "Requests to the AI service, by outcome.", ["outcome"]
)
written = metrics.counter("event_outbox_writes_total", "Events that the app has written.")
reflections = metrics.histogram(
    "trading_reflect_seconds", "From a label's commit to the feed.", [],
    buckets=(0.1, 0.3, 0.5, 1, 1.5, 3, 10, 60),
)  # fmt: skip


metrics.gauge(
    "queue_depth", "Jobs of the app that wait, also for a retry or a limit.", ["queue"],
    read=lambda: metrics.waiting(QUEUES),
)  # fmt: skip
