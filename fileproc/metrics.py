"""Numbers that tell whether files come through."""

from __future__ import annotations

from jobs import metrics

processed = metrics.counter(
    "fileproc_files_total", "Files that came to an end, by result and error.", ["result", "error"]
)
attempts = metrics.counter(
    "fileproc_attempts_total",
    "Attempts at a stage that were finished, or failed by a fault of the file.",
    ["stage", "attempt", "result"],
)
latency = metrics.histogram(
    "fileproc_ready_seconds", "Seconds from confirmation to ready.",
    buckets=(0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200),
)  # fmt: skip
stalled = metrics.counter("fileproc_stalled_total", "Stages whose worker was lost.", ["stage"])
