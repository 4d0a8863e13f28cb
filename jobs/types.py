"""What the library returns and hands over, for annotations, and what else code may want to name."""

import typing as _typing

from jobs import lazy as _lazy
from jobs.endings import Ended
from jobs.redaction import Vouched
from jobs.states import DeadLetterState

if _typing.TYPE_CHECKING:
    from jobs.engine.intake import Enqueued
    from jobs.models import Attempt, DeadLetter
    from jobs.operate.cancel import Cancelled
    from jobs.operate.explain import Explanation

_HOMES = {
    "Attempt": "jobs.models",
    "Cancelled": "jobs.operate.cancel",
    "DeadLetter": "jobs.models",
    "Enqueued": "jobs.engine.intake",
    "Explanation": "jobs.operate.explain",
}

__all__ = [
    "Attempt",
    "Cancelled",
    "DeadLetter",
    "DeadLetterState",
    "Ended",
    "Enqueued",
    "Explanation",
    "Vouched",
]

if not _typing.TYPE_CHECKING:
    __getattr__ = _lazy.attach("jobs.types", _HOMES)
