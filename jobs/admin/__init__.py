"""The admin of jobs: what there is and what became of it. Everything is read-only."""

from __future__ import annotations

from jobs.admin.flow import (
    BatchAdmin,
    BlackoutAdmin,
    BreakerAdmin,
    EffectAdmin,
    LimiterAdmin,
    PauseAdmin,
    ScheduleAdmin,
    SlotAdmin,
)
from jobs.admin.pages import DeadLetterAdmin, JobAdmin, LeaseAdmin

__all__ = [
    "BatchAdmin",
    "BlackoutAdmin",
    "BreakerAdmin",
    "DeadLetterAdmin",
    "EffectAdmin",
    "JobAdmin",
    "LeaseAdmin",
    "LimiterAdmin",
    "PauseAdmin",
    "ScheduleAdmin",
    "SlotAdmin",
]
