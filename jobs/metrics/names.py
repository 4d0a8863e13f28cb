"""The metrics there are: their names, types, labels and meanings. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; a counter's name ends in ``_total``."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names that a query may use."""
        if self.type == "histogram":
            return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


_KIND = ("kind", "queue")

METRICS = (
    Metric("job_duration_seconds", "histogram", ("kind", "status"), "How long attempts took."),
    Metric("jobs_attempts_total", "counter", (*_KIND, "outcome"), "Attempts that ended."),
    Metric("jobs_retries_total", "counter", _KIND, "Attempts that failed and run again."),
    Metric("jobs_dead_letters_total", "counter", _KIND, "Dead letters that were opened."),
    Metric("jobs_lease_losses_total", "counter", _KIND, "Attempts that were lost or crashed."),
    Metric("jobs_rate_limited_total", "counter", _KIND, "Attempts that met a rate limit."),
    Metric("jobs_queue_depth", "gauge", ("queue", "state"), "Jobs that have not ended."),
    Metric("jobs_oldest_wait_seconds", "gauge", ("queue",), "How long the longest waits by now."),
    Metric("jobs_running", "gauge", ("queue",), "Jobs that run."),
    Metric(
        "jobs_dispatch_latency_seconds",
        "gauge",
        ("queue",),
        "Mean time from being due to being queued, of jobs queued or running now.",
    ),
    Metric(
        "jobs_claim_latency_seconds",
        "gauge",
        ("queue",),
        "Mean time from being queued to being claimed, of jobs running now.",
    ),
    Metric("jobs_dead_letters_open", "gauge", (), "Dead letters that wait for somebody."),
    Metric(
        "jobs_effects_in_doubt",
        "gauge",
        (),
        "Effects that may or may not have happened, and wait for somebody.",
    ),
    Metric("jobs_limits_closed", "gauge", (), "Limits that are closed until some time."),
    Metric("jobs_rates_reached", "gauge", (), "Limits whose rate holds jobs back."),
    Metric("jobs_meters_closed", "gauge", (), "Meters that are closed until some time."),
    Metric("jobs_circuits_open", "gauge", (), "Circuit breakers that are not closed."),
    Metric("jobs_workers_live", "gauge", (), "Workers with an executor whose lease holds."),
    Metric("jobs_slots_live", "gauge", ("queue",), "Slots that listen to the queue."),
    Metric("jobs_leases_lapsed", "gauge", (), "Executors gone silent and not yet cleared away."),
    Metric("jobs_outbox_pending", "gauge", (), "Events that are not in the feed yet."),
    Metric("jobs_outbox_stuck", "gauge", (), "Events that could not be published."),
    Metric("jobs_outbox_lag_seconds", "gauge", (), "Age of the oldest publishable event."),
    Metric("jobs_feed_position", "gauge", (), "The last position of the feed."),
)
