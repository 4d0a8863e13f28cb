"""The platform's own kinds of jobs: found like every app's."""

from jobs import conf
from jobs.operate.bulkjobs import run_bulk

__all__ = ["run_bulk"]

if conf.settings().WEBHOOKS:
    from jobs.engine import webhooks

    webhooks.register()
