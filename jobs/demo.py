"""Scenes of ``manage.py jobs demo``, also those that an installed app brings along.

::

    # shop/demo.py, which is imported when the demo begins
    @demo.shown
    class AnOrder(demo.Act):
        title = "an order that is paid"

        def begin(self) -> None:
            self.ids = [services.place_order(...).id]

        def verdict(self) -> demo.Verdict:
            [job] = self.jobs()
            return job.state == "succeeded", job.state, "paid once"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, TypeVar
from uuid import UUID

from jobs.engine import sql
from jobs.models import Job
from jobs.states import FINAL_STATES

Verdict = tuple[bool, str, str]
"""Whether it went as it should, how it ended, and what was seen on the way."""


class Act(ABC):
    """Some jobs, and what is to become of them."""

    title: ClassVar[str]
    queues: ClassVar[tuple[str, ...]] = ()
    """They get a worker of their own: other scenes kill the processes in which they run."""
    kills: ClassVar[bool] = False
    """Whether it kills processes of its worker, which then serves no other app's queues."""

    def __init__(self, mark: str, url: str) -> None:
        self.mark = mark
        """Tells the keys of this showing from those of others."""
        self.url = url
        """Of the demo's web server."""
        self.ids: list[UUID] = []
        self._last_seen: dict[UUID, Job] = {}

    def prepare(self) -> Mapping[str, str]:
        """What the demo's programs find in their environment; called before any of them starts."""
        return {}

    @abstractmethod
    def begin(self) -> None:
        """Its jobs are enqueued."""

    def step(self) -> str:
        """Does what has to be done meanwhile; answers what there is to tell."""
        return ""

    def is_over(self) -> bool:
        """Return whether all of its jobs have ended; only those may have been removed."""
        return all(job.state in FINAL_STATES for job in self._kept().values())

    @abstractmethod
    def verdict(self) -> Verdict:
        """How it went, once it is over."""

    def leave(self) -> None:  # noqa: B027 - most have nothing to take back
        """What would go on without the demo is taken back, also where it was broken off."""

    def jobs(self) -> list[Job]:
        """Return its jobs in the order of their enqueue; a removed one is as it was last seen."""
        self._kept()
        return [self._last_seen[job_id] for job_id in self.ids]

    def _kept(self) -> dict[UUID, Job]:
        found = Job.objects.using(sql.alias()).in_bulk(self.ids)
        self._last_seen |= found
        return found


A = TypeVar("A", bound=type[Act])
_shown: dict[str, type[Act]] = {}


def shown(act: A) -> A:
    """The decorated act is part of every demo of a project with its app."""
    _shown[f"{act.__module__}.{act.__qualname__}"] = act
    return act


def of_apps() -> list[type[Act]]:
    """The acts of all installed apps."""
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("demo")
    return list(_shown.values())
