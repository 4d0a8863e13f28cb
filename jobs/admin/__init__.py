"""The admin of jobs: what there is and what became of it. Everything is read-only."""

from __future__ import annotations

from jobs.admin.pages import DeadLetterAdmin, JobAdmin, LeaseAdmin

__all__ = ["DeadLetterAdmin", "JobAdmin", "LeaseAdmin"]
