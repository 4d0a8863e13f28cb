"""Progress of an attempt: on its job, and as an event for those who follow it live."""

from __future__ import annotations

import time

from django.db import transaction

import jobs
from operations import events
from operations.models import Operation

EVERY = 1.0
"""Seconds between two events of an attempt."""


class Progress:
    """Report how far an attempt is."""

    def __init__(self, ctx: jobs.Context, row: Operation) -> None:
        self._ctx, self._row = ctx, row
        self._next = time.monotonic()

    def __call__(self, done: int, total: int, label: str = "rows") -> None:
        """Show it on the job; publish it unless the last event was less than a second ago."""
        self._ctx.progress(done, total, label)
        moment = time.monotonic()
        if moment < self._next:
            return
        self._next = moment + EVERY
        with transaction.atomic():
            self._ctx.fence()
            events.emit(
                self._row, "JOB_PROGRESS", label=label,
                progress=round(100 * done / total, 1) if total else 100.0,
            )  # fmt: skip
