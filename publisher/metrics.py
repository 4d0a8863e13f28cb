"""Metrics of the publisher."""

from __future__ import annotations

from jobs import metrics

publications = metrics.counter(
    "publisher_publications_total", "Publications that ended, by outcome.", ["channel", "outcome"]
)
lateness = metrics.histogram(
    "publisher_lateness_seconds", "From the scheduled moment to the appearance.", ["channel"]
)
