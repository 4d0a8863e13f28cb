"""Telling apps of jobs that ended without success.

Nothing is remembered in the database: a process that begins walks over all such jobs that are
there, and from then on over the latest, far enough back to meet ends that were committed late. Now
and then it walks over all of them again. So each callback is called at least once, whichever
process died meanwhile.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import datetime, timedelta
from uuid import UUID

from django.db import Error, transaction

from jobs import endings
from jobs.endings import Ended
from jobs.engine import sql
from jobs.engine.kept import FIRST, NOBODY, Place
from jobs.states import JobState

log = logging.getLogger("jobs.endings")

INTERVAL = 1.0
BUDGET = 0.05
"""Seconds for which it works at a time, and a portion more."""
OVERLAP = timedelta(minutes=2)
"""So late an end may be committed and is still reported at once."""
ROUND = 3600.0
"""Seconds after which everything is looked at once more."""
PAGE = 500
STATES = (JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED)

_PAGE = """
SELECT id, kind, finished_at FROM jobs_job
WHERE state = %s AND (finished_at, id) > (%s, %s) ORDER BY finished_at, id LIMIT %s
"""
# Only one that is still ended so is reported, and nobody else moves it meanwhile.
_LOCK = """
SELECT j.kind, j.tenant, j.state, j.reason,
  (SELECT jsonb_object_agg(e.key, e.state)::text FROM jobs_effect e WHERE e.job_id = j.id)
FROM jobs_job j WHERE j.id = %s AND j.state = ANY(%s)
  AND j.finished_at = coalesce(%s, j.finished_at) FOR NO KEY UPDATE OF j
"""
_DOUBTFUL = ("intent", "in_doubt")


class Teller:
    """Tells a part at a time; ``run`` is called again and again."""

    def __init__(self, *, raises: bool = False) -> None:
        self._raises = raises
        self._places: dict[JobState, Place] = {}
        self._told: dict[tuple[UUID, datetime], None] = {}
        self._began = 0.0

    def run(self) -> int:
        """Call the callbacks for what has ended lately; return for how many jobs."""
        listeners = endings.listeners()
        if not listeners:
            return 0
        moment = time.monotonic()
        if not self._began or moment - self._began >= ROUND:
            self._began = moment
            self._places = {}
        return sum(self._walk(state, listeners, moment + BUDGET) for state in STATES)

    def _walk(self, state: JobState, listeners: dict[str, endings.Listener], until: float) -> int:
        told = 0
        while True:
            place = self._places.get(state, (FIRST, NOBODY))
            page = sql.bound_rows(_PAGE, [state.value, *place, PAGE])
            for job_id, kind, finished_at in page:
                key = (job_id, finished_at)
                if kind in listeners and key not in self._told:
                    told += self._tell(listeners[kind], job_id, kind, finished_at)
            if len(page) < PAGE:
                self._settle(state)
                return told
            self._places[state] = (page[-1][2], page[-1][0])
            if time.monotonic() >= until and not self._raises:
                return told

    def _settle(self, state: JobState) -> None:
        """Next time it goes on where late commits may still come."""
        [(since,)] = sql.rows("SELECT jobs_clock() - %s", [OVERLAP])
        self._places[state] = (since, NOBODY)
        for key in [key for key in self._told if key[1] < since]:
            del self._told[key]

    def _tell(
        self, listener: endings.Listener, job_id: UUID, kind: str, finished_at: datetime
    ) -> bool:
        try:
            with transaction.atomic(using=sql.alias()):
                found = _ended(job_id, finished_at)
                if found is not None:
                    listener(found)
        except Exception as error:
            if self._raises or (isinstance(error, Error) and sql.is_disconnected(error)):
                raise
            log.exception(_REFUSED, job_id, kind)
            return False
        self._told[job_id, finished_at] = None
        return found is not None


_REFUSED = "the end of job %s of kind %s was not taken"


def tell(job_id: UUID) -> None:
    """Tell of an ended job once more, in the caller's transaction: its effects are known now.

    A listener that raises changes nothing of what the caller does, and is called again later.
    """
    found = _ended(job_id, None)
    listener = endings.listeners().get(found.kind) if found is not None else None
    if found is None or listener is None:
        return
    try:
        with transaction.atomic(using=sql.alias()):
            listener(found)
    except Exception as error:
        if isinstance(error, Error) and sql.is_disconnected(error):
            raise
        log.exception(_REFUSED, found.id, found.kind)


def _ended(job_id: UUID, finished_at: datetime | None) -> Ended | None:
    """The job, locked, if it has ended without success (at that moment)."""
    found = sql.rows(_LOCK, [job_id, [state.value for state in STATES], finished_at])
    if not found:
        return None
    [(kind, tenant, state, reason, effects)] = found
    known: dict[str, str] = json.loads(effects or "{}")
    in_doubt = any(each in _DOUBTFUL for each in known.values())
    return Ended(job_id, kind, tenant, JobState(state), reason, in_doubt, known)
