"""The platform's own kinds of jobs."""

from jobs.operate.bulkjobs import run_bulk

__all__ = ["run_bulk"]
