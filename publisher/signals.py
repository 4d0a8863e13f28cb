"""Signals for other apps: process a job in place of the connector, and hear of lost comments.

::

    @receiver(signals.process_job, sender=Channel.WORDPRESS_BLOG)
    def publish(sender, job, **kwargs):
        job.mark_completed(our_blog.publish(job.content))
"""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal

import jobs
from publisher.models import Publication

process_job = Signal()
"""Sent for every claimed job, with the ``Channel`` as ``sender`` and a ``ClaimedJob`` as ``job``.
The first receiver that marks it decides; if none does, the connector runs."""
ig_first_comment_error = Signal()
"""Sent with ``job_id``, the publication of the post, and ``message``, when its first comment could
not be created or published."""


class ClaimedJob:
    """A job that a worker has claimed, for a receiver of ``process_job``."""

    def __init__(self, row: Publication, attempt: int) -> None:
        self.id, self.channel, self.brand = row.pk, row.channel, row.tenant
        self.content: dict[str, Any] = row.content
        self.outcome: tuple[str, str, bool] | None = None
        """What was decided: ``completed`` or ``failed``, its id or error, whether to retry."""
        self._attempt = attempt
        self._is_over = False

    def mark_completed(self, remote_id: str = "") -> None:
        """Say that the post has appeared."""
        self._decide("completed", remote_id, False)

    def mark_failed(self, error: str, retryable: bool = False) -> None:
        """Say that the post has not appeared."""
        self._decide("failed", error, retryable)

    def close(self) -> None:
        """End the claim: later marks raise StaleClaim."""
        self._is_over = True

    def _decide(self, what: str, text: str, retryable: bool) -> None:
        if self._is_over:
            raise jobs.errors.StaleClaim(self.id, self._attempt)
        if self.outcome is None:
            self.outcome = (what, text, retryable)
