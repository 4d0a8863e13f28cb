"""A database router for projects whose jobs live on an alias of their own.

::

    JOBS = {"DATABASE": "queue"}
    DATABASE_ROUTERS = ["jobs.router.JobsRouter"]

Jobs and domain rows commit together only on the same alias; see ``docs/embedding.md``.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from jobs import conf

_LABEL = "jobs"


class JobsRouter:
    """Sends the models of jobs to JOBS["DATABASE"] and has no opinion on any other."""

    def db_for_read(self, model: type[Model], **_: Any) -> str | None:
        return conf.settings().DATABASE if model._meta.app_label == _LABEL else None

    def db_for_write(self, model: type[Model], **_: Any) -> str | None:
        return self.db_for_read(model)

    def allow_relation(self, one: Model, other: Model, **_: Any) -> bool | None:
        labels = {one._meta.app_label, other._meta.app_label}
        return True if labels == {_LABEL} else None

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        return db == conf.settings().DATABASE if app_label == _LABEL else None
