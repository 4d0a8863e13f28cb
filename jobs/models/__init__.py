"""The tables: columns and constraints only. What moves them lives in ``engine`` and ``operate``."""

from jobs.models.attempt import Attempt
from jobs.models.deadletter import DeadLetter
from jobs.models.job import Job
from jobs.models.lease import Lease
from jobs.models.queue import Queue

__all__ = ["Attempt", "DeadLetter", "Job", "Lease", "Queue"]
