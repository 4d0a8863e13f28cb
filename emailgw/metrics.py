"""Metrics of the gateway."""

from __future__ import annotations

from jobs import metrics

ended = metrics.counter(
    "emailgw_emails_total", "Emails that were sent, failed or expired, by error.",
    ["status", "error"],
)  # fmt: skip
